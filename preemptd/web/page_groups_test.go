// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// someRacks has twelve racks of four nodes, but for two nodes without a rack, and after that racks of 40 nodes.
func someRacks() map[string]string {
	all := map[string]string{}
	for i := range 10_000 {
		switch {
		case i < 46:
			all[fmt.Sprintf("gpu%05d", i+1)] = fmt.Sprintf("r%d", i/4+1)
		case i >= 48:
			all[fmt.Sprintf("gpu%05d", i+1)] = fmt.Sprintf("r%d", 13+(i-48)/40)
		}
	}
	return all
}

// groupBy chooses the property by which the map's nodes are grouped.
func (b *browser) groupBy(what string) (blocks string) {
	b.Helper()
	b.evaluate(fmt.Sprintf(`{ const s = document.querySelector("#group"); s.value = %q; s.dispatchEvent(new Event("change")); }`, what), nil)
	b.evaluate(`document.querySelector("#map").dataset.blocks`, &blocks)
	return blocks
}

// groupMap: racks and partitions have blocks with their names, in the order in which people count, and keys and the
// mouse find the nodes in the blocks.
func groupMap(t *testing.T, b *browser, _ *site) {
	b.waitFor(`document.querySelector("#map").dataset.chosen === "0"`) // the job's dialog was closed just now
	plain := b.countDots("premium")
	want := "r1 (4); r2 (4); r3 (4); r4 (4); r5 (4); r6 (4); r7 (4); r8 (4); r9 (4); r10 (4); r11 (4); r12 (2); no rack (2)"
	if got := b.groupBy("rack"); got != want {
		t.Errorf("blocks %q, want %q", got, want)
	}
	if n := b.countDots("premium"); n < plain/3 {
		t.Errorf("%d dots of premium in blocks, %d in rows", n, plain)
	}
	if *pictures != "" {
		b.writePicture(filepath.Join(*pictures, "page-racks.png"))
	}
	b.evaluate(`document.querySelector("#map").focus()`, nil)
	for _, press := range []struct{ key, finds string }{
		{"Home", "gpu00001 (a100, rack r1)"}, {"ArrowRight", "gpu00002 (a100, rack r1)"}, {"End", "gpu00048 (a100)"},
		{"ArrowLeft", "gpu00047 (a100)"}, {"Home", "gpu00001 (a100, rack r1)"}, {"ArrowDown", "rack r"}, {"ArrowUp", "gpu00001 (a100, rack r1)"},
	} {
		b.pressKey(press.key)
		if said := b.textOf("#map-line"); !strings.Contains(said, press.finds) {
			t.Errorf("%s leads to %q, want %q", press.key, said, press.finds)
		}
	}
	const pointAtCursor = `{
		const box = document.querySelector("#cursor").getBoundingClientRect();
		document.querySelector("#map").dispatchEvent(new PointerEvent("pointermove", { clientX: box.x + 8, clientY: box.y + 8 }));
	}`
	b.pressKey("ArrowRight")
	before := b.textOf("#map-line")
	b.evaluate(pointAtCursor, nil)
	if said := b.textOf("#map-line"); said != before {
		t.Errorf("the mouse finds %q where the cursor shows %q", said, before)
	}
	if got := b.groupBy("partition"); got != "main (40); main, long (8)" {
		t.Errorf("blocks %q", got)
	}
	if got := b.groupBy(""); got != "" || b.countDots("premium") != plain {
		t.Errorf("without groups: blocks %q, %d dots of premium, want %d", got, b.countDots("premium"), plain)
	}
}

// groupLargeCluster: 10 000 nodes are drawn in the blocks of their racks.
func groupLargeCluster(t *testing.T, b *browser, _ *site) {
	if n := len(strings.Split(b.groupBy("rack"), "; ")); n != 12+249+1 {
		t.Errorf("the map has %d blocks, want 262", n)
	}
	for _, tier := range []string{"premium", "standard", "basic"} {
		if n := b.countDots(tier); n < 10_000*4 {
			t.Errorf("%d dots of %s", n, tier)
		}
	}
	if *pictures != "" {
		b.writePicture(filepath.Join(*pictures, "page-large-racks.png"))
	}
	b.groupBy("")
}
