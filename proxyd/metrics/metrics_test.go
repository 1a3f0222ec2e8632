// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.yaml.in/yaml/v3"
)

// told is metrics that have been told everything once.
func told() *Metrics {
	m := New("1.2.3", []string{"checkpoint", "no checkpoint", "restored"}, []string{"cut", "dump"})
	m.Event("checkpoint")
	m.Event("no checkpoint")
	m.Phase("cut", 30*time.Millisecond, false)
	m.Phase("dump", time.Minute, true)
	m.Checkpoint(2 * time.Second)
	m.Stored(5<<30, 100<<20)
	for _, switches := range []uint64{5, 0, 7, 2} { // a server, which once does not answer, and the next one of that name
		now := &DeviceCounts{Switches: switches, Instructions: 100 * switches, SwappedIn: 1 << 20, Unshared: 1 << 19, SwitchTime: time.Second}
		if switches == 0 {
			now = nil
		}
		m.Devices(map[string]*DeviceCounts{"812-0": now})
	}
	return m
}

func TestScrape(t *testing.T) {
	m := told()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		`proxyd_build_info{version="1.2.3"} 1`, `proxyd_job_events_total{event="no-checkpoint"} 1`, `proxyd_job_events_total{event="restored"} 0`,
		`proxyd_phase_duration_seconds_bucket{phase="cut",le="0.05"} 1`, `proxyd_phase_failures_total{phase="dump"} 1`, `proxyd_phase_failures_total{phase="cut"} 0`,
		`proxyd_checkpoint_duration_seconds_bucket{le="2.5"} 1`, `proxyd_device_switches_total 9`, `proxyd_device_instructions_total 900`, `proxyd_device_switch_seconds_total 2`, `proxyd_device_swapped_in_bytes_total 2.097152e+06`,
		`proxyd_device_unshared_bytes_total 1.048576e+06`,
		`proxyd_checkpoint_logical_bytes_sum 5.36870912e+09`, `proxyd_checkpoint_stored_bytes_count 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
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
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

var names = regexp.MustCompile(`\bproxyd_[a-z_]+`)

// What the rules look at exists.
func TestRules(t *testing.T) {
	raw, err := os.ReadFile("../../contrib/prometheus/proxyd.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(raw, &rules); err != nil || len(rules.Groups) != 1 || len(rules.Groups[0].Rules) < 4 {
		t.Fatalf("%v: %+v", err, rules)
	}
	families, err := told().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, f := range families {
		known = append(known, f.GetName(), f.GetName()+"_bucket")
	}
	for _, r := range rules.Groups[0].Rules {
		for _, name := range names.FindAllString(r.Expr, -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s: there is no %s", r.Alert, name)
			}
		}
	}
}
