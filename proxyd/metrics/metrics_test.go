// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.yaml.in/yaml/v3"
)

// toldMetrics returns metrics that have been told of events, phases, checkpoints and device counts.
func toldMetrics() *Metrics {
	m := New("1.2.3", []string{"checkpoint", "no checkpoint", "restored"}, []string{"cut", "dump"})
	m.Event("checkpoint")
	m.Event("no checkpoint")
	m.Phase("cut", 30*time.Millisecond, false)
	m.Phase("dump", time.Minute, true)
	m.Checkpoint(2 * time.Second)
	m.Stored(5<<30, 100<<20)
	for _, switches := range []uint64{5, 0, 7, 2} { // a server, which once does not answer, and the next server of that name
		now := &DeviceCounts{Switches: switches, Instructions: 100 * switches, SwappedIn: 1 << 20, SwapSpared: 1 << 21, Unshared: 1 << 19, SwitchTime: time.Second,
			Once: 3 * switches, Own: switches, Spared: 10 * switches, Compared: 1 << 20, Taken: 1 << 18, Common: 2 << 20, Saved: 6 << 20, Private: 1 << 19}
		if switches == 0 {
			now = nil
		}
		m.Devices(map[string]*DeviceCounts{"812-0": now})
	}
	m.Spaces(true, &Space{Size: 4 << 40, Free: 1 << 40}, &Space{Size: 1 << 40, Free: 1 << 30})
	return m
}

func TestScrape(t *testing.T) {
	m := toldMetrics()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		`proxyd_build_info{version="1.2.3"} 1`, `proxyd_job_events_total{event="no-checkpoint"} 1`, `proxyd_job_events_total{event="restored"} 0`,
		`proxyd_phase_duration_seconds_bucket{phase="cut",le="0.05"} 1`, `proxyd_phase_failures_total{phase="dump"} 1`, `proxyd_phase_failures_total{phase="cut"} 0`,
		`proxyd_checkpoint_duration_seconds_bucket{le="2.5"} 1`, `proxyd_device_switches_total 9`, `proxyd_device_instructions_total 900`, `proxyd_device_switch_seconds_total 2`, `proxyd_device_swapped_in_bytes_total 2.097152e+06`,
		`proxyd_device_swap_spared_bytes_total 4.194304e+06`, `proxyd_device_unshared_bytes_total 1.048576e+06`,
		`proxyd_device_once_total 27`, `proxyd_device_own_total 9`, `proxyd_device_spared_instructions_total 90`,
		`proxyd_device_compared_bytes_total 2.097152e+06`, `proxyd_device_taken_bytes_total 524288`,
		`proxyd_device_common_bytes 2.097152e+06`, `proxyd_device_saved_bytes 6.291456e+06`, `proxyd_device_private_bytes 524288`,
		`proxyd_checkpoint_logical_bytes_sum 5.36870912e+09`, `proxyd_checkpoint_stored_bytes_count 1`,
		`proxyd_shared_up 1`, `proxyd_store_free_bytes 1.099511627776e+12`, `proxyd_stage_free_bytes 1.073741824e+09`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics have no line %s", want)
		}
	}
	if strings.Contains(text, `phase_duration_seconds_count{phase="dump"}`) {
		t.Error("a phase that failed is among those that succeeded")
	}
	if t.Failed() {
		t.Log(text)
	}
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("metric %s: %s", p.Metric, p.Text)
	}
}

var names = regexp.MustCompile(`\bproxyd_[a-z_]+`)

// TestSpaces: an unknown space has no series, and the series of a shared folder that is away is 0.
func TestSpaces(t *testing.T) {
	m := toldMetrics()
	m.Spaces(false, nil, nil)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if text := w.Body.String(); !strings.Contains(text, "proxyd_shared_up 0\n") || strings.Contains(text, "proxyd_store_") || strings.Contains(text, "proxyd_stage_") {
		t.Errorf("after Spaces(false, nil, nil), metrics =\n%s", text)
	}
}

// expressionsOf collects all queries in a dashboard or a file of rules.
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

// TestContrib: the metrics in the dashboard and in the rules exist, and the dashboard shows each metric.
func TestContrib(t *testing.T) {
	families, err := toldMetrics().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{} // the family of a name in a query
	for _, f := range families {
		known[f.GetName()] = f.GetName()
		if f.GetMetric()[0].GetHistogram() != nil {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				known[f.GetName()+suffix] = f.GetName()
			}
		}
	}
	shown := map[string]bool{}
	for file, parse := range map[string]func([]byte, any) error{
		"../../contrib/grafana/proxyd.json": json.Unmarshal, "../../contrib/prometheus/proxyd.rules.yaml": yaml.Unmarshal,
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
		if expressionsOf(content, &queries); len(queries) < 4 {
			t.Errorf("%s: found only %d expressions, want at least 4", file, len(queries))
		}
		for _, name := range names.FindAllString(strings.Join(queries, "\n"), -1) {
			if known[name] == "" {
				t.Errorf("%s: there is no %s", file, name)
			}
			shown[known[name]] = shown[known[name]] || strings.HasSuffix(file, ".json")
		}
	}
	for _, f := range families {
		if name := f.GetName(); strings.HasPrefix(name, prefix) && !shown[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}
