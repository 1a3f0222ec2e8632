//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// turns are the values of two variants that were measured in turns: the k-th values of plain and ours were taken
// together.
type turns struct{ plain, ours []float64 }

func (s *turns) add(plain, ours float64) {
	s.plain, s.ours = append(s.plain, plain), append(s.ours, ours)
}

// pairQuartiles are the quartiles of the pairs, compared by f.
func (s *turns) pairQuartiles(f func(plain, ours float64) float64) (low, mid, high float64) {
	var all []float64
	for i := range s.plain {
		all = append(all, f(s.plain[i], s.ours[i]))
	}
	return quantileOf(all, 0.25), quantileOf(all, 0.5), quantileOf(all, 0.75)
}

func medianOf(all []float64) float64 { return quantileOf(all, 0.5) }

// quantileOf returns a quantile of values, interpolated between two values.
func quantileOf(all []float64, q float64) float64 {
	all = slices.Sorted(slices.Values(all))
	at := q * float64(len(all)-1)
	i := int(at)
	if i+1 >= len(all) {
		return all[len(all)-1]
	}
	return all[i] + (at-float64(i))*(all[i+1]-all[i])
}

// bound is the limit that a figure is compared with.
type bound struct {
	text  string // as in the table; "" is no bound
	least bool   // the bound is a lower one
	value float64
}

func atMost(v float64, text string) bound  { return bound{text, false, v} }
func atLeast(v float64, text string) bound { return bound{text, true, v} }

var noAim bound

func (b bound) verdict(v float64) string {
	switch {
	case b.text == "":
		return ""
	case b.least && v < b.value || !b.least && v > b.value:
		return "**missed**"
	}
	return "met"
}

// figure is a line of the table.
type figure struct {
	what        string
	plain, ours string // medians, with their units
	compared    string // of the medians
	pairs       string // of the pairs, and between which values half of them are
	aim         bound
	value       float64 // the number that the aim limits
}

func (f figure) String() string {
	return "| " + strings.Join([]string{f.what, f.plain, f.ours, f.compared, f.pairs, f.aim.text, f.aim.verdict(f.value)}, " | ") + " |"
}

// ratio returns a figure of our value divided by the plain value.
func (s *turns) ratio(what string, show func(float64) string, aim bound) figure {
	low, mid, high := s.pairQuartiles(func(plain, ours float64) float64 { return ours / plain })
	return figure{
		what: what, plain: show(medianOf(s.plain)), ours: show(medianOf(s.ours)), compared: fmt.Sprintf("× %.3f", medianOf(s.ours)/medianOf(s.plain)),
		pairs: fmt.Sprintf("× %.3f (%.3f to %.3f, %d)", mid, low, high, len(s.plain)), aim: aim, value: mid,
	}
}

// more returns a figure of our value minus the plain value.
func (s *turns) more(what string, show func(float64) string, aim bound) figure {
	low, mid, high := s.pairQuartiles(func(plain, ours float64) float64 { return ours - plain })
	return figure{
		what: what, plain: show(medianOf(s.plain)), ours: show(medianOf(s.ours)), compared: "+ " + show(medianOf(s.ours)-medianOf(s.plain)),
		pairs: fmt.Sprintf("+ %s (%s to %s, %d)", show(mid), show(low), show(high), len(s.plain)), aim: aim, value: mid,
	}
}

// figureAlone returns a figure of ours alone, without a variant to compare it with.
func figureAlone(what string, show func(float64) string, aim bound, v float64) figure {
	return figure{what: what, ours: show(v), aim: aim, value: v}
}

func formatMilliseconds(s float64) string { return fmt.Sprintf("%.1f ms", s*1e3) }
func formatSeconds(s float64) string      { return fmt.Sprintf("%.2f s", s) }
func formatMebibytes(b float64) string    { return fmt.Sprintf("%.1f MiB", b/(1<<20)) }
func gigabytesPS(r float64) string        { return fmt.Sprintf("%.2f GB/s", r/1e9) }
func megabytesPS(r float64) string        { return fmt.Sprintf("%.0f MB/s", r/1e6) }
func formatCount(n float64) string        { return fmt.Sprintf("%.0f", n) }
func formatPercent(p float64) string      { return fmt.Sprintf("%+.2f %%", p) }

// table has the results of all measurements.
type table struct {
	figures []figure
	began   time.Time
	loads   string // of the machine, before
}

func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d processors, %s; load %s before, %s after; took %s.\n\n", time.Now().Format(time.DateOnly), runtime.NumCPU(),
		formatMebibytes(float64(readMeminfo("MemTotal"))), t.loads, readLoad(), time.Since(t.began).Round(time.Second))
	b.WriteString("| | reference | ours | medians | pairs (half of them between, how many) | aim | |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, f := range t.figures {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

// readLoad returns the load of the last minute and of the last five.
func readLoad() string {
	b, _ := os.ReadFile("/proc/loadavg")
	f := strings.Fields(string(b) + " ? ?")
	return f[0] + " (" + f[1] + ")"
}

// readMeminfo returns a line of /proc/meminfo, in bytes.
func readMeminfo(key string) (n int64) {
	b, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, key+":"); ok {
			fmt.Sscan(v, &n)
		}
	}
	return n << 10
}
