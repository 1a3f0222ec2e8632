// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// TestWriterMemory writes a long stream and looks at the process as the kernel sees it.
func TestWriterMemory(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("the race detector has its own memory; -short: 1 GiB is written")
	}
	const most = 64 << 20
	im := storetest.NewImage(9, 16384).Bytes()
	s := openStore(t, folder(t), store.Options{Workers: 2})
	w := must(s.Create(t.Context(), store.Upload{ID: ckpt(1, 1), Node: "n1"}))
	st := must(w.Stream(0, "pages-1.img"))
	debug.FreeOSMemory() // of earlier tests
	before, peak := resident(t), int64(0)
	for i := range 20 { // 1.25 GiB, all different
		for j := 0; j < len(im); j += 4096 {
			im[j] = byte(i + 1)
		}
		must(st.Write(im))
		peak = max(peak, resident(t)-before)
	}
	check(t, st.Close())
	must(w.Commit(t.Context(), nil))
	t.Logf("peak %d MiB more than before", peak>>20)
	if peak > most {
		t.Errorf("a Writer took %d MiB, want at most %d", peak>>20, most>>20)
	}
}

// resident is RssAnon: what this process holds itself.
func resident(t *testing.T) int64 {
	text := string(must(os.ReadFile("/proc/self/status")))
	_, rest, _ := strings.Cut(text, "RssAnon:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	check(t, err)
	return kib << 10
}
