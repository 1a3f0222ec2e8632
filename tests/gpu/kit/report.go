// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// outcome is the verdict of a row.
type outcome string

// The outcomes.
const (
	right   outcome = "right"
	wrong   outcome = "WRONG"
	cannot  outcome = "cannot"  // something is missing here
	differs outcome = "differs" // the driver itself differs from our programs' expectations
)

// row is a line of the table.
type row struct {
	Step    string            `json:"step"`
	Name    string            `json:"name"`
	Outcome outcome           `json:"outcome"`
	Why     string            `json:"why,omitempty"`
	Native  float64           `json:"native,omitempty"`
	Ours    float64           `json:"ours,omitempty"`
	Unit    string            `json:"unit,omitempty"` // of native and ours
	Values  map[string]string `json:"values,omitempty"`
}

// report is the table and the JSON. Both are whole after each row: if the kit is ended, they hold all rows so far.
type report struct {
	folder string
	out    io.Writer
	table  *os.File
	Begun  time.Time `json:"begun"`
	Done   bool      `json:"done"` // the kit has come to the end
	Rows   []row     `json:"rows"`
}

func newReport(folder string, out io.Writer) (*report, error) {
	table, err := os.Create(filepath.Join(folder, "table.txt"))
	if err != nil {
		return nil, err
	}
	r := &report{folder: folder, table: table, Begun: time.Now().UTC(), Rows: []row{}}
	r.out = io.MultiWriter(out, table)
	fmt.Fprintf(r.out, "%-10s %-44s %-8s %10s %10s %7s\n", "step", "what", "outcome", "native", "ours", "ratio")
	return r, r.writeJSON()
}

func (r *report) addRow(w row) {
	r.Rows = append(r.Rows, w)
	native, ours, ratio := formatNumber(w.Native, w.Unit), formatNumber(w.Ours, w.Unit), "-"
	if w.Native > 0 && w.Ours > 0 {
		ratio = fmt.Sprintf("%.3f", w.Ours/w.Native)
	}
	fmt.Fprintf(r.out, "%-10s %-44s %-8s %10s %10s %7s\n", w.Step, w.Name, w.Outcome, native, ours, ratio)
	if w.Why != "" {
		for line := range strings.Lines(strings.TrimSpace(w.Why)) {
			fmt.Fprintf(r.out, "%11s%s\n", "", strings.TrimRight(line, "\n"))
		}
	}
	for _, name := range sortedKeys(w.Values) {
		fmt.Fprintf(r.out, "%11s%-60s %s\n", "", name, w.Values[name])
	}
	if err := r.writeJSON(); err != nil {
		fmt.Fprintln(r.out, "result.json:", err)
	}
}

// formatNumber is a number for people, or "-".
func formatNumber(v float64, unit string) string {
	if v == 0 {
		return "-"
	}
	return strings.TrimSpace(fmt.Sprintf("%.4g %s", v, unit))
}

func (r *report) countOutcomes(o outcome) int {
	n := 0
	for _, w := range r.Rows {
		if w.Outcome == o {
			n++
		}
	}
	return n
}

// writeJSON replaces the file as a whole.
func (r *report) writeJSON() error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(r.folder, "result.json")
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (r *report) finishReport() error {
	r.Done = true
	fmt.Fprintf(r.out, "%d right, %d wrong, %d differ from the driver, %d cannot run here, in %.0f s; %s has all of it\n",
		r.countOutcomes(right), r.countOutcomes(wrong), r.countOutcomes(differs), r.countOutcomes(cannot), time.Since(r.Begun).Seconds(), r.folder)
	if err := r.writeJSON(); err != nil {
		return err
	}
	return r.table.Close()
}
