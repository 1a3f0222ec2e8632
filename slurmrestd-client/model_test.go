// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParseRef(t *testing.T) {
	for text, want := range map[string]Ref{
		"12": JobID(12), "12_3": TaskOf(12, 3), "12_0": TaskOf(12, 0), "12+1": ComponentOf(12, 1),
		"67108964": JobID(67108964), // federated
	} {
		got, err := ParseRef(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"":                      "the id is not a number",
		"abc":                   `job "abc": the id is not a number; want "12", "12_3" or "12+1"`,
		"12_":                   "the index is not a number",
		"12_x":                  "the index is not a number",
		"12_[1-3]":              "the index is not a number",
		"12_3_4":                "the index is not a number",
		"-1":                    "the id is not a number",
		"12/../nodes":           "the id is not a number",
		"0":                     "no such job",
		"4294967295":            "no such job",
		"12_99999999":           "no such job",
		strings.Repeat("9", 99): "the id is not a number",
	} {
		if _, err := ParseRef(text); err == nil || !strings.Contains(err.Error(), says) || len(err.Error()) > 150 {
			t.Errorf("%.20q: error %v; want one that says %q", text, err, says)
		}
	}
}

func TestInRanges(t *testing.T) {
	for ranges, in := range map[string]string{
		"3": "3", "1-3": "123", "1-3,7": "1237", "1-5:2": "135", "0-3%1": "0123", "1,3,...": "01234567",
		"": "", "x": "", "3-1": "", "1-5:0": "", "1-5:x": "",
	} {
		got := ""
		for n := range int64(8) {
			if inRanges(ranges, n) {
				got += fmt.Sprint(n)
			}
		}
		if got != in {
			t.Errorf("%q holds %q; want %q", ranges, got, in)
		}
	}
}

func TestState(t *testing.T) {
	for _, test := range []struct {
		names    []string
		text     string
		finished bool
		editable bool
	}{
		{[]string{"PENDING"}, "PENDING", false, true},
		{[]string{"PENDING", "COMPLETING"}, "PENDING+COMPLETING", false, true},
		{[]string{"RUNNING", "RESIZING", "CONFIGURING"}, "RUNNING+CONFIGURING+RESIZING", false, false},
		{[]string{"CANCELLED", "COMPLETING"}, "CANCELLED+COMPLETING", false, false},
		{[]string{"FAILED"}, "FAILED", true, false},
		{[]string{"RUNNING", "SOMETHING_NEW"}, "RUNNING+UNKNOWN_FLAG", false, false},
		{nil, "", false, false},
	} {
		var s State
		for _, name := range test.names {
			s.addName([]byte(name))
		}
		if s.String() != test.text || s.Finished() != test.finished || s.Editable() != test.editable {
			t.Errorf("state of %v = %q, finished %v, editable %v", test.names, s, s.Finished(), s.Editable())
		}
	}
	// If a state is only a flag, the flag gives the base where Slurm sets it on a single base.
	for name, want := range map[string]string{
		"RUNNING": "RUNNING", "COMPLETING": "COMPLETING", "CONFIGURING": "RUNNING+CONFIGURING",
		"SPECIAL_EXIT": "PENDING+SPECIAL_EXIT", "REQUEUED": "REQUEUED",
	} {
		var s State
		s.addName([]byte(name))
		s.unhideBase()
		if s.String() != want {
			t.Errorf("%s: %q; want %q", name, s, want)
		}
	}
}

func TestNumbersInWords(t *testing.T) {
	for want, got := range map[string]string{
		"unset": Number{}.String(), "infinite": Number{Set: true, Infinite: true}.String(), "7": Num(7).String(),
		"unlimited": Unlimited().String(), "1h0m0s": LimitOf(time.Hour).String(),
	} {
		if got != want {
			t.Errorf("String = %q; want %q", got, want)
		}
	}
	if got := (Limit{}).String(); got != "unset" {
		t.Errorf("String of the zero Limit = %q; want unset", got)
	}
	if Num(3).Or(9) != 3 || (Number{}).Or(9) != 9 || (Number{Set: true, Infinite: true}).Or(9) != 9 {
		t.Error("Or does not return the value, or does not return the default for an unset or infinite Number")
	}
}

// TestErrorText: an error is a single line with the request, Slurm's text, and the HTTP and Slurm
// numbers.
func TestErrorText(t *testing.T) {
	c := &call{method: "POST", path: "/slurm/v0.0.45/job/12", subject: "job 12"}
	a := answer{Errors: []complaint{
		{Number: 2073, Text: "Job is no longer pending execution", Description: "Job update\nrequested failed"},
		{Number: 2002, Text: "Access/permission denied"},
	}}
	err := a.failureOf(c, 500)
	want := "job 12: Job is no longer pending execution: Job update requested failed (POST /slurm/v0.0.45/job/12, http 500, slurm 2073)"
	if err.Error() != want {
		t.Errorf("%q; want %q", err, want)
	}
	if !errors.Is(err, ErrJobNotPending) || !errors.Is(err, ErrAccessDenied) {
		t.Errorf("error %v; want it to be ErrJobNotPending and ErrAccessDenied", err)
	}
	results := answer{Results: []complaint{{Number: 0, Text: "No error"}, {Number: 2017, Text: "Invalid job id specified"}}}
	if err := results.failureOf(c, 200); !errors.Is(err, ErrInvalidJobID) {
		t.Errorf("a result with a number: %v", err)
	}
	if err := (&answer{Results: []complaint{{Text: "No error"}}}).failureOf(c, 200); err != nil {
		t.Errorf("a result without one: %v", err)
	}
}
