// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
)

var pictures = flag.String("pictures", "", "write pictures of the page into this `FOLDER`")

// TestPage opens the page in a browser, as people do. Its parts follow each other on one
// page: a browser takes longer to start than all of them.
func TestPage(t *testing.T) {
	b := newBrowser(t)
	s := newSite(t)
	s.addJob(nobody) // 1, as in the snapshot
	s.addJob(4_000_001_001)
	s.tellSnapshot(s.someTicks(48))
	s.writeJournal(t)
	b.setTheme("light")
	b.openPage(s.address, 1280, 900)
	if *pictures != "" {
		takePictures(b)
	}
	for _, part := range []struct {
		name string
		do   func(*testing.T, *browser, *site)
	}{
		{"map", checkMap}, {"groups of the map", groupMap}, {"timeline", checkTimeline}, {"sorted jobs", sortJobs}, {"leases", showLeased}, {"another job", openAnother}, {"past of a job", showPast}, {"hostile names", checkEscaping}, {"decisions", checkDecisions}, {"useful share", usefulShare}, {"nodes", nodesListed}, {"promises", showUnkept}, {"below promise", showBelow},
		{"errors", checkNoErrors}, {"token", checkToken}, {"standby", standsBy}, {"10 000 nodes", checkLargeCluster}, {"10 000 nodes in racks", groupLargeCluster}, {"errors", checkNoErrors}, {"stale", checkStalePage},
	} {
		t.Run(part.name, func(t *testing.T) {
			b.T = t
			part.do(t, b, s)
		})
		if t.Failed() {
			break
		}
	}
	b.T = t
}

// tellSnapshot has the page see the cluster now, with decisions.
func (s *site) tellSnapshot(last *sdk.Snapshot) {
	s.last = last
	again := *last
	again.Number++
	again.Time = time.Now()
	s.page.Tell(web.Tick{Snapshot: &again, Decisions: []web.Decision{
		{Policy: "tiers", Job: 6, What: "resize job 6 to 8 GPUs", Reason: "gives 8 GPUs to premium job 25", Outcome: "begun"},
		{Policy: "drain", Job: 8, What: "migrate job 8 away from gpu00012", Reason: "gpu00012 is marked for maintenance: new firmware", Outcome: "waits for job 6"},
		{Job: 7, What: "preempt job 7", Reason: "gives 8 GPUs to premium job 29", Rejected: true, Outcome: "it would fall to 0.64 of 0.70 that are promised", Invariant: "guarantee"},
	}})
}

// keepSeeing has the page see the cluster each second until the test's part ends, as a preemptd that works does: on a slow
// machine a single look is old before the page is read.
func (s *site) keepSeeing() (stop func()) {
	s.tellSnapshot(s.last)
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				s.tellSnapshot(s.last)
			}
		}
	}()
	return func() { close(ended); <-done }
}

// writeJournal writes actions that ended and actions under way.
func (s *site) writeJournal(t *testing.T) {
	t.Helper()
	for i, r := range []journal.Request{
		{Kind: "migrate", Job: 3, Who: "policy drain", Why: "gpu00028 is marked for maintenance"},
		{Kind: "preempt", Job: 13, Who: "alice", Why: hostile},
		{Kind: "resize", Job: 6, Who: "policy tiers", Why: "gives 8 GPUs to premium job 25"},
	} {
		a, err := s.journal.Begin(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if a.Step = "checkpoint"; i < 2 {
			a.State = journal.Done
		}
		if err := s.journal.Save(t.Context(), &a, ""); err != nil {
			t.Fatal(err)
		}
	}
}

func takePictures(b *browser) {
	b.writePicture(filepath.Join(*pictures, "page.png"))
	b.setTheme("dark")
	b.writePicture(filepath.Join(*pictures, "page-dark.png"))
	b.setSize(390, 844)
	b.waitFor("document.querySelector('#map').clientWidth < 390 && document.querySelector('#timeline svg').clientWidth < 390")
	b.writePicture(filepath.Join(*pictures, "page-phone.png"))
	b.setSize(1280, 900)
	b.setTheme("light")
	b.waitFor("document.querySelector('#map').clientWidth > 390")
}

// showUnkept: the tier panel has a line where the promises to a tier and to higher tiers cannot all be kept.
func showUnkept(_ *testing.T, b *browser, s *site) {
	const lines = `[...document.querySelectorAll("#tiers .tier")].map((t) => t.querySelector(".detail.short")?.textContent ?? "").join("|")`
	last := newSnapshot(48, 112, time.Now())
	last.Jobs[0].Request = 1000 // of premium, which is promised 0.95
	all := last.PromisesByTier()
	s.tellSnapshot(last)
	b.waitFor(fmt.Sprintf("%s === %q", lines, all[sdk.Premium].Unkept()+"|"+all[sdk.Standard].Unkept()+"|"))
	s.tellSnapshot(newSnapshot(48, 114, time.Now()))
	b.waitFor(lines + ` === "||"`)
}

// usefulShare: a day's share of useful GPU time, of all tiers and of users.
func usefulShare(t *testing.T, b *browser, _ *site) {
	var said string
	b.evaluate(`[...document.querySelectorAll("#useful-rows tr > *")].map((cell) => cell.textContent).join("|")`, &said)
	if want := "2026-11-23|2.0|90 %|–|–|90 %|<b>alice 90 %"; said != want {
		t.Errorf("useful share %q, want %q", said, want)
	}
}

// someProxyds are the proxyds of a snapshot's nodes: the first has ceased to answer, the second never answered, the
// third lost its shared folder, the fourth has little space, and the last is of an older release.
func someProxyds(nodes int, now time.Time) []web.Proxyd {
	all := make([]web.Proxyd, nodes)
	for i := range all {
		all[i] = web.Proxyd{
			Node: fmt.Sprintf("gpu%05d", i+1), Asked: true, Answers: true, Since: now.Add(-time.Hour), Heard: now, Version: "1.2.3", Says: true,
			Store: web.Space{Size: 100 << 40, Free: 40<<40 + 12345}, Stage: web.Space{Size: 1 << 40, Free: 1 << 39}, Devices: "cuda", Capsules: i % 3,
		}
	}
	all[4] = web.Proxyd{Node: "gpu00005", Asked: true, Since: now.Add(-time.Minute)}
	all[9].Answers, all[9].Heard = false, now.Add(-time.Minute)
	all[2].Problem, all[2].Store = "the shared folder is not there, or not mounted", web.Space{}
	all[20].Stage.Free = 1 << 30
	all[11] = web.Proxyd{Node: "gpu00012", Asked: true, Answers: true, Since: now, Heard: now, Version: "0.9"}
	all[30] = web.Proxyd{Node: "gpu00031"}
	return all
}

// nodesListed: nodes with a problem come first, each with its problem, and the map and the tile name them too.
func nodesListed(t *testing.T, b *browser, s *site) {
	if said := b.textOf("#nodes-line"); said != "Nothing is known of the nodes' proxyds." {
		t.Errorf("nodes line before any answer = %q", said)
	}
	all := someProxyds(48, time.Now())
	s.changeState(func(now *web.State) { now.Proxyds = func() []web.Proxyd { return all } })
	s.tellSnapshot(newSnapshot(48, 110, time.Now()))
	b.waitFor(`document.querySelectorAll("#nodes tr").length === 48`)
	var said string
	b.evaluate(`[...document.querySelectorAll("#nodes tr")].slice(0, 7).map((r) => [...r.cells].map((c) => c.textContent).join("|").replace(/ since [^|]*/, "")).join("\n")`, &said)
	want := strings.Join([]string{
		"gpu00010|does not answer|1.2.3|–|40.0 TiB, 40 %|512 GiB, 50 %|cuda|0|main|r3",
		"gpu00003|answers|1.2.3|the shared folder is not there, or not mounted|–|512 GiB, 50 %|cuda|2|main|r1",
		"gpu00021|answers|1.2.3|right|40.0 TiB, 40 %|1.0 GiB, 0 %|cuda|2|main|r6",
		"gpu00005|has not answered yet, asked|–|–|–|–|–|–|main|r2",
		"gpu00031|not asked yet|–|–|–|–|–|–|main|r8",
		"gpu00001|answers|1.2.3|right|40.0 TiB, 40 %|512 GiB, 50 %|cuda|0|main|r1",
		"gpu00002|answers|1.2.3|right|40.0 TiB, 40 %|512 GiB, 50 %|cuda|1|main|r1",
	}, "\n")
	if said != want {
		t.Errorf("the table begins with\n%s\nwant\n%s", said, want)
	}
	b.evaluate(`[...document.querySelector('#nodes [data-node="gpu00012"]').cells].map((c) => c.textContent).join("|")`, &said)
	if said != "gpu00012|answers|0.9|does not say|–|–|–|–|main|r3" {
		t.Errorf("an older release: %s", said)
	}
	if said := b.textOf("#nodes-line"); said != "45 of 48 proxyds answer, 2 silent, 1 without the right shared folder" {
		t.Errorf("nodes line = %q", said)
	}
	if said := b.textOf("#tiles"); !strings.Contains(said, "of 48, 3 proxyds with a problem") {
		t.Errorf("tiles = %q", said)
	}
	if *pictures != "" {
		b.writePicture(filepath.Join(*pictures, "page-nodes.png"))
	}
	b.evaluate(`document.querySelector("#map").focus()`, nil)
	b.pressKey("Home")
	b.pressKey("ArrowRight")
	b.pressKey("ArrowRight")
	if said := b.textOf("#map-line"); !strings.Contains(said, "the shared folder is not there") {
		t.Errorf("map line of the node without the shared folder = %q", said)
	}
	b.evaluate(`{ const m = document.querySelector("#find-node"); m.value = "0.9"; m.dispatchEvent(new Event("input")); }`, nil)
	b.waitFor(`document.querySelectorAll("#nodes tr").length === 1`)
	b.evaluate(`{ const m = document.querySelector("#find-node"); m.value = ""; m.dispatchEvent(new Event("input")); }`, nil)
}

// countDots counts the dots of the map that have the colour of a tier.
func (b *browser) countDots(tier string) int {
	b.Helper()
	var n int
	b.evaluate(fmt.Sprintf(`(() => {
		const map = document.querySelector("#map");
		const dots = map.getContext("2d").getImageData(0, 0, map.width, map.height).data;
		const want = getComputedStyle(document.querySelector(".swatch.%s")).backgroundColor.match(/\d+/g).map(Number);
		let n = 0;
		for (let i = 0; i < dots.length; i += 4) if (want.every((c, k) => dots[i + k] === c)) n++;
		return n;
	})()`, tier), &n)
	return n
}

// checkMap: the map has the colours of tiers, and its text tells people without a mouse which jobs are where.
func checkMap(t *testing.T, b *browser, _ *site) {
	b.waitFor(`document.querySelector("#map").dataset.nodes === "48"`)
	for _, tier := range []string{"premium", "standard", "basic"} {
		if n := b.countDots(tier); n < 50*100 {
			t.Errorf("%d dots of %s", n, tier)
		}
	}
	b.evaluate(`document.querySelector("#map").focus()`, nil)
	b.pressKey("ArrowRight")
	if said := b.textOf("#map-line"); !strings.Contains(said, "gpu00001 (a100, rack r1) — 1 llama-70b-sft (alice, premium, 8 GPUs)") {
		t.Errorf("map line of the first node = %q", said)
	}
	b.pressKey("End")
	b.pressKey("ArrowLeft")
	if said := b.textOf("#map-line"); !strings.Contains(said, "gpu00047 (a100), down: not responding") {
		t.Errorf("map line of the last node but one = %q", said)
	}
	b.pressKey("Home")
	b.pressKey("Enter")
	b.waitFor(`document.querySelector("#job").open`)
	if said := b.textOf("#job"); !strings.Contains(said, "Job 1 llama-70b-sft") || !strings.Contains(said, "premium, QOS premium, promised 95 %") {
		t.Errorf("dialog of job 1 = %q", said)
	}
	b.evaluate(`document.querySelector("#job [data-close]").click()`, nil)
}

// checkTimeline: jobs have bars, and actions marks, and a filter leaves the jobs that it names.
func checkTimeline(t *testing.T, b *browser, _ *site) {
	var rows, bars, marks int
	b.evaluate(`document.querySelectorAll("#timeline .job").length`, &rows)
	b.evaluate(`document.querySelectorAll("#timeline .part.basic").length`, &bars)
	b.evaluate(`document.querySelectorAll("#timeline .mark.done").length`, &marks)
	if rows < 25 || bars < 20 || marks != 2 {
		t.Errorf("%d rows, %d bars, %d marks", rows, bars, marks)
	}
	b.evaluate(`{ const m = document.querySelector("#match"); m.value = "graphcast"; m.dispatchEvent(new Event("input")); }`, nil)
	b.waitFor(`[...document.querySelectorAll("#timeline .job")].every((g) => g.getAttribute("aria-label").includes("graphcast"))`)
	b.evaluate(`{ const m = document.querySelector("#match"); m.value = ""; m.dispatchEvent(new Event("input")); }`, nil)
	b.waitFor(fmt.Sprintf(`document.querySelectorAll("#timeline .job").length === %d`, rows))
}

// sortJobs: a click on the head of a column sorts the jobs, another reverses them, a third has them as before.
func sortJobs(t *testing.T, b *browser, _ *site) {
	const first = `[...document.querySelectorAll("#jobs tr")].slice(0, 40).map((r) => Number(r.querySelector("button").textContent)).join()`
	var before, up, down, after string
	b.evaluate(first, &before)
	click := func(to *string) {
		b.evaluate(`document.querySelector('#jobs-columns [data-sort="id"]').click()`, nil)
		b.evaluate(first, to)
	}
	click(&up)
	click(&down)
	click(&after)
	if !strings.HasPrefix(up, "1,2,3,4,") || up == before || strings.HasPrefix(down, "1,2,") || down == up || after != before {
		t.Errorf("before %s\nup %s\ndown %s\nafter %s", before, up, down, after)
	}
}

// showLeased: GPUs that a lease lends to a job are not "2 of 1".
func showLeased(_ *testing.T, b *browser, s *site) {
	last := newSnapshot(48, 100, time.Now())
	for i := range last.Jobs[:3] {
		j := &last.Jobs[i]
		j.Request, j.Leased = []int{4, 2, j.GPUs}[i], []int{j.GPUs - 4, 0, 0}[i]
	}
	s.tellSnapshot(last)
	want := fmt.Sprintf("4 + %d leased|%d, asked for 2|%d", last.Jobs[0].GPUs-4, last.Jobs[1].GPUs, last.Jobs[2].GPUs)
	b.waitFor(fmt.Sprintf(`["1", "2", "3"].map((id) => [...document.querySelectorAll("#jobs tr")].find((r) => r.cells[0].textContent === id)?.cells[5].textContent).join("|") === %q`, want))
	s.tellSnapshot(newSnapshot(48, 102, time.Now()))
	b.waitFor(`[...document.querySelectorAll("#jobs tr")].find((r) => r.cells[0].textContent === "1").cells[5].textContent === "8"`)
}

// showBelow: the table marks a job by the rule of the tile "Below promise". A job that got less than is promised is not
// marked as long as the job can make up for that in the window.
func showBelow(_ *testing.T, b *browser, s *site) {
	for i, tt := range []struct {
		fraction float64
		counted  time.Duration
		want     string
	}{{.87, time.Hour, "87 %|number"}, {.4, 5 * time.Hour, "40 %|number short"}} {
		last := newSnapshot(48, 116+2*uint64(i), time.Now())
		for k := range last.Jobs {
			last.Jobs[k].Fraction = 1
		}
		last.Jobs[0].Fraction, last.Jobs[0].Counted = tt.fraction, tt.counted
		s.tellSnapshot(last)
		b.waitFor(fmt.Sprintf(`(() => {
			const cell = [...document.querySelectorAll("#jobs tr")].find((r) => r.cells[0].textContent === "1")?.cells[6];
			return cell && cell.textContent + "|" + cell.className === %q;
		})()`, tt.want))
		b.waitFor(fmt.Sprintf(`document.querySelectorAll("#jobs .short").length === %d`, i))
		b.waitFor(fmt.Sprintf(`document.querySelector("#tiles").textContent.includes("Below promise%d")`, i))
	}
	s.tellSnapshot(newSnapshot(48, 120, time.Now()))
}

// openAnother opens the dialog of a job in the moment in which the dialog of another job is closed. The browser reports
// the closing after the opening, and the new dialog stays shown.
func openAnother(t *testing.T, b *browser, s *site) {
	b.evaluate(`{
		const click = (id) => [...document.querySelectorAll("#jobs button")].find((b) => b.textContent === id).click();
		click("1");
		document.querySelector("#job").addEventListener("close", () => { document.body.dataset.told = "yes"; }, { once: true });
		document.querySelector("#job [data-close]").click();
		click("2");
	}`, nil)
	b.waitFor(`document.body.dataset.told === "yes"`)
	later := newSnapshot(48, 103, time.Now())
	later.Jobs[1].Name = "renamed"
	s.tellSnapshot(later)
	b.waitFor(`document.querySelector("#jobs").textContent.includes("renamed")`) // the dialog is made anew with the table
	if said := b.textOf("#job-title"); said != "Job 2 renamed" {
		t.Errorf("%q is shown", said)
	}
	b.evaluate(`document.querySelector("#job [data-close]").click()`, nil)
}

// showPast: a job's dialog has its checkpoints, the actions on it, and the rejected intents, with the reasons; the
// dialog of another job has none of these.
func showPast(t *testing.T, b *browser, _ *site) {
	show := func(id int) {
		b.evaluate(fmt.Sprintf(`[...document.querySelectorAll("#jobs button")].find((b) => b.textContent === "%d").click()`, id), nil)
	}
	show(3)
	b.waitFor(`document.querySelectorAll("#job-checkpoints tbody tr").length === 2 && document.querySelector("#job-history") !== null`)
	said := b.textOf("#job-past")
	for _, want := range []string{
		"5.0 GiB", "1.5 GiB", "12 s", "gpu00003, gpu00004", "in the store", "on its nodes, not in the store yet", hostile, "migrate", "gpu00028 is marked for maintenance", "by policy drain",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	var hidden int // of the table, to its right
	if b.evaluate(`{ const frame = document.querySelector("#job-checkpoints").parentElement; frame.scrollWidth - frame.clientWidth }`, &hidden); hidden > 0 {
		t.Errorf("%d pixels of the checkpoints are not seen", hidden)
	}
	if *pictures != "" {
		b.writePicture(filepath.Join(*pictures, "page-past.png"))
	}
	if said := b.textOf("#job-obstacles"); said != "" {
		t.Errorf("shown without a token: %q", said)
	}
	b.evaluate(`document.querySelector("#job [data-close]").click()`, nil)
	show(7)
	b.waitFor(`document.querySelector("#job-history") !== null`)
	if said := b.textOf("#job-past"); strings.Contains(said, "in the store") || !strings.Contains(said, "rejected: guarantee: it would fall to 0.64") || !strings.Contains(said, "premium job 29") {
		t.Errorf("past of job 7 = %q", said)
	}
	b.evaluate(`document.querySelector("#job [data-close]").click()`, nil)
}

// checkEscaping: a job's name and a person's reason are text, with all characters.
func checkEscaping(t *testing.T, b *browser, _ *site) {
	var title string
	var made int
	b.evaluate("document.title", &title)
	b.evaluate(`document.querySelectorAll("main img, main script, dialog img, dialog script").length`, &made)
	if title != "Singularity for Slurm" || made != 0 {
		t.Errorf("title %q, %d elements of a job's name", title, made)
	}
	if !strings.Contains(b.textOf("#jobs"), hostile) || !strings.Contains(b.textOf("#actions"), hostile) {
		t.Error("the name is not shown as it is")
	}
}

// checkDecisions: each decision is there with its reason.
func checkDecisions(t *testing.T, b *browser, _ *site) {
	said := b.textOf("#decisions")
	for _, want := range []string{"gives 8 GPUs to premium job 25", "policy tiers", "waits for job 6", "rejected: guarantee", "it would fall to 0.64 of 0.70"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	b.evaluate(`document.querySelector("#rejected").click()`, nil)
	if said := b.textOf("#decisions"); strings.Contains(said, "guarantee") || !strings.Contains(said, "begun") {
		t.Errorf("decisions without the rejected = %q", said)
	}
}

// checkToken: no request can be made without a token, and with a token the requests that package api permits.
func checkToken(t *testing.T, b *browser, s *site) {
	own := newSnapshot(48, 104, time.Now())
	own.Jobs[0].User = "nobody"
	s.tellSnapshot(own)
	b.waitFor(`[...document.querySelectorAll("#jobs tr")].find((r) => r.cells[0].textContent === "1").cells[2].textContent === "nobody"`)
	show := func(id int) {
		b.evaluate(fmt.Sprintf(`[...document.querySelectorAll("#jobs button")].find((b) => b.textContent === "%d").click()`, id), nil)
	}
	show(1)
	var hidden bool
	if b.evaluate(`document.querySelector("#act").hidden`, &hidden); !hidden {
		t.Error("the buttons are shown without a token")
	}
	enter := func(token string) {
		b.evaluate(fmt.Sprintf(`document.querySelector("#token").value = %q; document.querySelector("#signing-form").requestSubmit()`, token), nil)
	}
	b.evaluate(`document.querySelector("#act-sign-button").click()`, nil)
	enter("sing1_stolen")
	b.waitFor(`document.querySelector("#signing-said").textContent.includes("not of this preemptd")`)
	token, _ := s.keys.Sign(nobody)
	enter(token)
	b.waitFor(`!document.querySelector("#act").hidden`)
	b.waitFor(`document.querySelector("#job-obstacles").textContent.includes("batch, gpu00001, process 7: a connection to 192.0.2.7:443: close it")`)
	if who := b.textOf("#sign"); who != "nobody: sign out" {
		t.Errorf("user on the page = %q", who)
	}
	if *pictures != "" {
		b.writePicture(filepath.Join(*pictures, "page-job.png"))
	}
	b.evaluate(`document.querySelector("#act [name=reason]").value = "a noisy fan"; document.querySelector("#act").requestSubmit()`, nil)
	b.waitFor(`document.querySelector("#act-said").textContent.includes("preempt: under way")`)
	all, err := s.journal.History(t.Context(), 1, 10)
	if err != nil || len(all) != 1 || all[0].Kind != "preempt" || all[0].Who != "nobody" || all[0].Why != "a noisy fan" {
		t.Errorf("history of job 1: %v, %+v, want the preempt from the page", err, all)
	}
	b.evaluate(`document.querySelector("#act [value=requeue]").click(); document.querySelector("#act [name=qos]").value = "none-such"; document.querySelector("#act").requestSubmit()`, nil)
	b.waitFor(`document.querySelector("#do").textContent === "Requeue" && document.querySelector("#act-said").className === "wrong"`)
	b.evaluate(`document.querySelector("#job [data-close]").click()`, nil)
	show(2)
	b.evaluate(`document.querySelector("#act").requestSubmit()`, nil)
	b.waitFor(`document.querySelector("#act-said").textContent.includes("belongs to another user")`)
	b.evaluate(`document.querySelector("#job [data-close]").click(); document.querySelector("#sign").click()`, nil)
	b.waitFor(`document.querySelector("#act").hidden && sessionStorage.length === 0`)
	b.dropReports() // the refusals, which are logged
}

// standsBy: the page says that another preemptd works.
func standsBy(_ *testing.T, b *browser, s *site) {
	s.changeState(func(now *web.State) { now.Role = web.Waits })
	b.waitFor(`document.querySelector("#role").textContent === "stands by" && !document.querySelector("#notice").hidden`)
	b.waitFor(`document.querySelector("#notice").textContent.includes("process")`)
	s.changeState(func(now *web.State) { now.Role = web.DryRun })
	b.waitFor(`document.querySelector("#notice").textContent.startsWith("Dry run")`)
	s.changeState(func(now *web.State) { now.Role = web.Works })
	b.waitFor(`document.querySelector("#notice").hidden`)
}

// checkLargeCluster: a cluster of 10 000 nodes is drawn.
func checkLargeCluster(t *testing.T, b *browser, s *site) {
	s.tellSnapshot(newSnapshot(10_000, 100, time.Now()))
	b.waitFor(`document.querySelector("#map").dataset.nodes === "10000"`)
	for _, tier := range []string{"premium", "standard", "basic"} {
		if n := b.countDots(tier); n < 10_000*4 {
			t.Errorf("%d dots of %s", n, tier)
		}
	}
	if *pictures != "" {
		b.writePicture(filepath.Join(*pictures, "page-large.png"))
	}
}

// checkNoErrors: no script failed, and no content was against the page's own policy.
func checkNoErrors(t *testing.T, b *browser, _ *site) {
	if all := b.reportedErrors(); len(all) > 0 {
		t.Errorf("errors that the page reported: %q", all)
	}
}

// checkStalePage: when preemptd goes away the page says so, and stops saying so when preemptd is back.
func checkStalePage(_ *testing.T, b *browser, s *site) {
	defer s.keepSeeing()()
	b.waitFor(`document.querySelector("#stale").hidden`)
	s.stop()
	b.waitFor(`!document.querySelector("#stale").hidden && document.querySelector("#stale").textContent.startsWith("preemptd does not answer since")`)
	s.servePage(strings.TrimPrefix(s.address, "http://"))
	b.waitFor(`document.querySelector("#stale").hidden`)
}
