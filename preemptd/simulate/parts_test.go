// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
)

// says is a policy of this process.
type says func(s *sdk.Snapshot) []sdk.Intent

func (f says) Ask(_ context.Context, pb *policypb.Snapshot) ([]sdk.Intent, error) {
	s, err := sdk.Decode(pb)
	if err != nil {
		return nil, err
	}
	return f(s), nil
}

func TestHeapIsInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h, want []event
	for i := range 1000 {
		e := event{at: int64(r.IntN(100)), seq: int64(i)}
		h, want = heapPush(h, e), append(want, e)
	}
	slices.SortStableFunc(want, func(a, b event) int { return int(a.at - b.at) })
	for _, w := range want {
		var e event
		if e, h = heapPop(h); e != w {
			t.Fatalf("took %+v, want %+v", e, w)
		}
	}
}

// The sum of the course is the work that was computed, however often parts were joined.
func TestCourseIsWhole(t *testing.T) {
	res, err := Run(t.Context(), newConfig(1, 8), parseTrace(t, "1,0,100,6,,,,100\n2,100000,50,8,,,,50\n3,2000000,7,2,,,,60\n"))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i, s := range res.Course {
		end := res.Makespan
		if i+1 < len(res.Course) {
			end = res.Course[i+1].Start
		}
		sum += s.Busy * 8 * (end - s.Start).Seconds()
	}
	if want := 6*100 + 8*50 + 2*7.; sum < want-0.01 || sum > want+0.01 || len(res.Course) > buckets {
		t.Errorf("%g GPU-seconds in %d parts, want %g", sum, len(res.Course), want)
	}
}

// A policy parks a job at once, and lets the job go on an hour later under another QOS.
func TestParkAndGoOn(t *testing.T) {
	night := says(func(s *sdk.Snapshot) []sdk.Intent {
		j, ok := s.Job(1)
		switch ran := s.Time.Sub(epoch); {
		case !ok:
			return nil
		case j.State == sdk.Running && j.QOS == "basic" && ran >= 10*time.Minute:
			return []sdk.Intent{{Verb: sdk.Requeue, Job: 1, QOS: "standard", Park: true, Reason: "day"}}
		case j.State == sdk.Held && j.HeldBy == sdk.HeldByPreemptd && ran >= time.Hour:
			return []sdk.Intent{{Verb: sdk.Release, Job: 1, Reason: "night"}}
		}
		return nil
	})
	res, err := Run(t.Context(), newConfig(1, 8, chain.NamedPolicy{Name: "night", Policy: night}), parseTrace(t, "1,0,1200,8,,,basic,\n"))
	if err != nil {
		t.Fatal(err)
	}
	// 600 s, dump, parked until its release at 3600, started at the next question.
	if want := 3660*time.Second + (20+600)*time.Second; res.Makespan != want || res.Tiers[sdk.Basic].Stopped != 1 {
		t.Errorf("done after %v with %d stops, want %v with 1", res.Makespan, res.Tiers[sdk.Basic].Stopped, want)
	}
}

func TestHeldForEver(t *testing.T) {
	held := says(func(s *sdk.Snapshot) []sdk.Intent {
		for _, j := range s.Jobs {
			if j.State == sdk.Waiting {
				return []sdk.Intent{{Verb: sdk.Hold, Job: j.ID, Reason: "no"}}
			}
		}
		return nil
	})
	c := newConfig(1, 8, chain.NamedPolicy{Name: "held", Policy: held})
	c.Every = time.Hour
	_, err := Run(t.Context(), c, parseTrace(t, "1,0,100000,8,,,basic,\n2,1,10,8,,,basic,\n"))
	if err == nil || !strings.Contains(err.Error(), "1 jobs are not done: are they held?") {
		t.Errorf("Run with jobs held for ever: %v", err)
	}
}

func TestAPolicyThatFailsEndsIt(t *testing.T) {
	c := newConfig(1, 8, chain.NamedPolicy{Name: "bad", Policy: fails{}})
	if _, err := Run(t.Context(), c, parseTrace(t, "1,0,100,8,,,basic,\n")); err == nil || err.Error() != "it crashed" {
		t.Errorf("Run with a policy that fails: %v", err)
	}
}

type fails struct{}

func (fails) Ask(context.Context, *policypb.Snapshot) ([]sdk.Intent, error) {
	return nil, errors.New("it crashed")
}

// A made trace is the same each time, fits its cluster, and brings the work that was asked for.
func TestGenerate(t *testing.T) {
	made := TraceDescription{Jobs: 20000, Nodes: 100, GPUs: 8, Load: 0.9, Seed: 7}
	jobs := Generate(made)
	if again := Generate(made); !slices.Equal(jobs, again) {
		t.Error("Generate made two different traces of the same Made")
	}
	total := 0.0
	for i := range jobs {
		j := &jobs[i]
		if err := j.fillDefaults(); err != nil {
			t.Fatal(err)
		}
		if j.GPUs/j.Nodes > made.GPUs || j.MinGPUs%j.Nodes != 0 || i > 0 && j.Submit < jobs[i-1].Submit {
			t.Fatalf("generated job = %+v", j)
		}
		total += float64(workOf(j)) / 1000
	}
	if load := total / jobs[len(jobs)-1].Submit.Seconds() / 800; load < 0.8 || load > 1 {
		t.Errorf("load %g, want about 0.9", load)
	}
	made.Seed++
	if slices.Equal(jobs, Generate(made)) {
		t.Error("Generate made the same trace with another seed")
	}
}

// The picture and the report are well formed, for all names.
func TestShown(t *testing.T) {
	res, err := Run(t.Context(), newConfig(1, 8), parseTrace(t, "1,0,100,6,,,premium,100\n2,1,50,8,,,,50\n"))
	if err != nil {
		t.Fatal(err)
	}
	results := []NamedResult{{"a & <b>", res}, {"c", res}}
	var svg, text strings.Builder
	if err := Draw(&svg, results, [sdk.Tiers]float64{sdk.Premium: 0.95}); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(svg.String()))
	lines := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 4 || !strings.Contains(svg.String(), "a &amp; &lt;b&gt;") {
		t.Errorf("the picture has %d lines, want 4:\n%s", lines, svg.String())
	}
	if err := PrintJSON(&text, results); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Results []struct {
			Name     string
			Makespan float64
			Tiers    map[string]struct{ Wait struct{ P95 float64 } }
		}
	}
	if err := json.Unmarshal([]byte(text.String()), &read); err != nil {
		t.Fatal(err)
	}
	if got := read.Results[1]; got.Name != "c" || got.Makespan != 150 || got.Tiers["basic"].Wait.P95 != 99 {
		t.Errorf("result c of the JSON report = %+v; the report is\n%s", got, text.String())
	}
}

// TestRoundTimes: the labels of a time axis are round, and few.
func TestRoundTimes(t *testing.T) {
	for span, want := range map[time.Duration]string{
		7 * time.Minute: "3 min", 238*time.Hour + 19*time.Minute: "6 d", 47*time.Hour + 24*time.Minute: "18 h", 3 * time.Hour: "90 min", 90 * 24 * time.Hour: "48 d",
	} {
		step := roundStep(span)
		if got := timeLabel(3*step, step); got != want || span/step > 8 {
			t.Errorf("%v: the fourth label is %s, want %s; %d labels", span, got, want, span/step+1)
		}
	}
}
