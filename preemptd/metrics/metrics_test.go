// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.yaml.in/yaml/v3"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
)

// filledMetrics are metrics that were told each event once.
func filledMetrics(t *testing.T) *Metrics {
	t.Helper()
	journal := filepath.Join(t.TempDir(), "preemptd.db")
	for name, size := range map[string]int{journal: 4096, journal + "-wal": 100} {
		if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := New(Options{Version: "1.2.3", Journal: journal, Kinds: []string{"migrate", "preempt"}, Ends: []string{"done", "stuck"}, Policy: func() []Policy {
		return []Policy{{Name: "tiers", Running: true, Starts: 3, Failures: map[string]int{"crash": 2, "hang": 1}}}
	}, Proxyds: func() Proxyds {
		return Proxyds{Known: true, Sound: 60, Unsound: 1, Silent: 2, Unasked: 3, Capsules: 17, Versions: map[string]int{"1.2.3": 61}, StoreKnown: true, StoreFree: 40, StoreSize: 100}
	}})
	m.Leads(true)
	m.Ticked(20*time.Millisecond, nil)
	m.Ticked(time.Second, errors.New("slurmrestd is away"))
	m.Intent("tiers", sdk.Preempt, "begun")
	m.Rejected("tiers", sdk.Place, "room")
	m.Rejected("tiers", sdk.Verb(200), "sense")
	m.Ended("preempt", "done", 42*time.Second)
	m.Answered("tiers", 3*time.Millisecond)
	m.Requested("GET", "jobs", "ok", 7*time.Millisecond)
	s := smallCluster()
	m.Decided(s, 2)
	return m
}

// smallCluster is a snapshot of two nodes, of which the first is drained.
func smallCluster() *sdk.Snapshot {
	return &sdk.Snapshot{
		Time:  noon,
		Rules: sdk.Rules{Window: time.Hour, Promised: [sdk.Tiers]float64{sdk.Standard: 0.7, sdk.Premium: 0.95}},
		Nodes: []sdk.Node{{Name: "n1", GPUs: make([]sdk.GPU, 4)}, {Name: "n2", State: sdk.NodeDraining, GPUs: make([]sdk.GPU, 4)}},
		Jobs: []sdk.Job{
			{ID: 1, Tier: sdk.Premium, Account: "lab", State: sdk.Running, Request: 2, Promised: 0.95, Fraction: 1, Counted: time.Hour, Shares: []sdk.Share{{Node: 0, GPUs: 0b11}}},
			{ID: 2, Tier: sdk.Premium, Account: "lab", State: sdk.Waiting, Request: 6, Promised: 0.95, Fraction: 0.5, Counted: 30 * time.Minute},
			{ID: 3, Tier: sdk.Basic, Account: "class", State: sdk.Running, Request: 1, Fraction: 0.2, Counted: time.Hour, Action: "migrate", Shares: []sdk.Share{{Node: 1, GPUs: 0b1}}},
		},
		Accounts: []sdk.Account{{Name: "class", Fraction: 0.2}, {Name: "lab", Fraction: 0.7}},
	}
}

// scrapeMetrics returns the text that Prometheus gets.
func scrapeMetrics(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("GET /metrics: %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestScrape(t *testing.T) {
	m := filledMetrics(t)
	text := scrapeMetrics(t, m)
	for _, want := range []string{
		`preemptd_build_info{version="1.2.3"} 1`, `preemptd_leader 1`, `preemptd_problems 2`,
		`preemptd_ticks_total{result="ok"} 1`, `preemptd_ticks_total{result="failed"} 1`, `preemptd_tick_duration_seconds_bucket{le="0.025"} 1`,
		`preemptd_decisions_total 1`, `preemptd_snapshot_timestamp_seconds 1.7723664e+09`,
		`preemptd_intents_total{policy="tiers",verb="preempt",verdict="begun"} 1`, `preemptd_intents_total{policy="tiers",verb="unknown",verdict="rejected"} 1`,
		`preemptd_rejections_total{invariant="room",policy="tiers"} 1`,
		`preemptd_actions_total{kind="preempt",state="done"} 1`, `preemptd_actions_total{kind="migrate",state="stuck"} 0`, `preemptd_action_duration_seconds_bucket{kind="preempt",le="60"} 1`, `preemptd_actions_open{kind="migrate"} 1`,
		`preemptd_policy_answer_duration_seconds_count{policy="tiers"} 1`, `preemptd_policy_up{policy="tiers"} 1`, `preemptd_policy_starts_total{policy="tiers"} 3`,
		`preemptd_policy_failures_total{kind="hang",policy="tiers"} 1`,
		`preemptd_slurmrestd_request_duration_seconds_count{endpoint="jobs",method="GET",result="ok"} 1`,
		`preemptd_journal_size_bytes 4196`, `preemptd_lost_gpu_seconds_total{reason="redone",tier="basic"} 0`,
		`preemptd_nodes{state="draining"} 1`, `preemptd_gpus{state="held"} 3`, `preemptd_gpus{state="free"} 2`, `preemptd_gpus{state="unusable"} 3`,
		`preemptd_gpus_held{tier="premium"} 2`, `preemptd_jobs{state="waiting",tier="premium"} 1`, `preemptd_jobs{state="held",tier="basic"} 0`,
		// Premium: 2 GPU-hours of 2, and 1.5 of 3.
		`preemptd_tier_promised_ratio{tier="premium"} 0.95`, `preemptd_tier_delivered_ratio{tier="premium"} 0.7`, `preemptd_tier_delivered_ratio{tier="standard"} 1`,
		// 0.95 of 8 GPUs are promised. The GPUs of the drained node do not count as usable, though a basic job runs there.
		`preemptd_tier_promised_gpus{tier="premium"} 7.6`, `preemptd_tier_usable_gpus{tier="premium"} 4`,
		`preemptd_tier_promised_gpus{tier="basic"} 7.6`, `preemptd_tier_usable_gpus{tier="basic"} 4`,
		`preemptd_tier_jobs_below_promise{tier="premium"} 1`, `preemptd_tier_jobs_below_promise{tier="basic"} 0`,
		`preemptd_account_delivered_ratio{account="lab"} 0.7`, `preemptd_accounts_omitted 0`,
		`preemptd_proxyds{state="sound"} 60`, `preemptd_proxyds{state="unsound"} 1`, `preemptd_proxyds{state="silent"} 2`, `preemptd_proxyds{state="unasked"} 3`,
		`preemptd_proxyd_versions{version="1.2.3"} 61`, `preemptd_capsules 17`, `preemptd_store_free_bytes 40`, `preemptd_store_size_bytes 100`,
		"go_goroutines", "process_resident_memory_bytes",
	} {
		if !strings.Contains(text, want+"\n") && !strings.Contains(text, want+" ") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	m.Leads(false)
	for _, line := range strings.Split(scrapeMetrics(t, m), "\n") {
		for _, name := range []string{"preemptd_leader", "preemptd_snapshot_", "preemptd_jobs", "preemptd_problems"} {
			if strings.HasPrefix(line, name) && !strings.HasSuffix(line, " 0") {
				t.Errorf("this preemptd does not lead, and says %s", line)
			}
		}
	}
}

// TestProxydsUnknown: a preemptd that asks no proxyd has no series of them: zeros would look like a dead cluster.
func TestProxydsUnknown(t *testing.T) {
	m := New(Options{Proxyds: func() Proxyds { return Proxyds{} }})
	if text := scrapeMetrics(t, m); strings.Contains(text, "preemptd_proxyd") || strings.Contains(text, "preemptd_capsules") {
		t.Errorf("series of proxyds that are not known:\n%s", text)
	}
}

// Names and help texts are as Prometheus wants them.
func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(filledMetrics(t).registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("metric %s: %s", p.Metric, p.Text)
	}
}

// There are as many series on a large cluster as on a small cluster, but for accounts, of which
// there are MaxAccounts at most.
func TestCardinality(t *testing.T) {
	count := func(s *sdk.Snapshot) int {
		m := filledMetrics(t)
		m.Decided(s, 0)
		n, err := testutil.GatherAndCount(m.registry)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	few := sdktest.Cluster(sdktest.Size{Nodes: 4, GPUs: 8, Jobs: 20, Fill: 0.9})
	many := sdktest.Cluster(sdktest.Size{Nodes: 400, GPUs: 8, Jobs: 4000, Fill: 0.9})
	few.Accounts, many.Accounts = few.Accounts[:1], nil
	for i := range 1000 {
		many.Accounts = append(many.Accounts, sdk.Account{Name: fmt.Sprintf("a%03d", i)})
	}
	if a, b := count(few), count(many); b-a != MaxAccounts-1 {
		t.Errorf("%d series, and on a large cluster %d", a, b)
	}
}

// metricNames returns the names of all metrics.
func metricNames(t *testing.T) []string {
	t.Helper()
	families, err := filledMetrics(t).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		all = append(all, f.GetName())
		if f.GetType().String() == "HISTOGRAM" {
			all = append(all, f.GetName()+"_bucket", f.GetName()+"_count", f.GetName()+"_sum")
		}
	}
	return all
}

var inQuery = regexp.MustCompile(`\b(preemptd|proxyd)_[a-z_]+`)

// expressionsOf are the expressions in a dashboard or in rules, wherever they stand.
func expressionsOf(node any, found *[]string) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			if text, ok := value.(string); ok && (key == "expr" || key == "query") {
				*found = append(*found, text)
			}
			expressionsOf(value, found)
		}
	case []any:
		for _, value := range node {
			expressionsOf(value, found)
		}
	}
}

// All series of the dashboard and of the rules exist.
func TestContrib(t *testing.T) {
	known := metricNames(t)
	for file, parse := range map[string]func([]byte, any) error{
		"../../contrib/grafana/preemptd.json":          json.Unmarshal,
		"../../contrib/prometheus/preemptd.rules.yaml": yaml.Unmarshal,
	} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var content any
		if err := parse(raw, &content); err != nil {
			t.Fatalf("parse %s: %v", file, err)
		}
		var queries []string
		if expressionsOf(content, &queries); len(queries) < 8 {
			t.Errorf("%s: only %d expressions", file, len(queries))
		}
		for _, q := range queries {
			for _, name := range inQuery.FindAllString(q, -1) {
				if !slices.Contains(known, name) {
					t.Errorf("%s: there is no %s", file, name)
				}
			}
		}
	}
}
