// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// safeText replaces characters that would move the cursor or worse: names of jobs and programs are chosen by users,
// and operators look at them.
func safeText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// safeLine returns safe text without line breaks.
func safeLine(s string) string { return strings.ReplaceAll(safeText(s), "\n", " ") }

// colour is the number of a colour of a terminal's.
type colour int

const (
	red    colour = 31
	green  colour = 32
	yellow colour = 33
)

// inColour returns a text in a colour, as it is where no colours are written.
func (a *app) inColour(c colour, text string) string {
	if !a.colours {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
}

// printTable writes rows in columns. A row that is shorter ends there, and its last cell makes
// no column wider.
func printTable(w io.Writer, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i := range row {
			row[i] = safeLine(row[i])
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
			}
		}
	}
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			fmt.Fprintf(w, "%-*s  ", widths[i], cell)
		}
		fmt.Fprintln(w, row[len(row)-1])
	}
}

// bytesText writes n in the largest unit of which n has at least 1.
func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	f, i := float64(n), 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	if i == 0 || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

func timeText(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Local().Format(time.DateTime)
}

func durationText(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// formatPlural writes "1 chunk", "2 chunks".
func formatPlural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// reductionsText is how sums over GPUs were made, by the words of a device server.
var reductionsText = map[string]string{
	"exact": "sums over GPUs: exact, the same bits wherever they are",
	"nccl":  "sums over GPUs: by NCCL, they agree to rounding (--singularity-exact has them agree exactly)",
}

// arithmeticTexts says how a capsule's devices have computed sums over GPUs and products of matrices.
func arithmeticTexts(d *rpc.Devices) []string {
	var out []string
	if text, known := reductionsText[d.GetReductions()]; known && len(d.GetProcesses()) > 0 {
		out = append(out, text)
	}
	if d.GetProducts() == "native" {
		out = append(out, "matrix products: by the software GPU, not by the vendor's cuBLAS")
	}
	return out
}

// costText is a short time in words that begin with a number: "0 ms", "340 ms", "1.2 s", "5m0s".
func costText(d time.Duration) string {
	switch d = d.Round(time.Millisecond); {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return durationText(d)
}

// formatCount is a number with its noun.
func formatCount(n uint64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// statusText is a wait status in words.
func statusText(status uint32) string {
	s := unix.WaitStatus(status)
	switch {
	case s.Exited() && s.ExitStatus() == 0:
		return "ended"
	case s.Exited():
		return fmt.Sprintf("exit %d", s.ExitStatus())
	default:
		return "killed by " + strings.TrimPrefix(unix.SignalName(s.Signal()), "SIG")
	}
}

// sameObstacle is an obstacle that several processes of the same command have, such as the ranks of a job.
type sameObstacle struct {
	first *rpc.Obstacle
	since *timestamppb.Timestamp // when the first of them was found
	more  int                    // further processes
}

// groupObstacles brings the obstacles together that are the same but for the process, in the order of the first of each.
func groupObstacles(all []*rpc.Obstacle) []*sameObstacle {
	type kind struct{ command, what, cure string }
	var groups []*sameObstacle
	found := map[kind]*sameObstacle{}
	for _, o := range all {
		k := kind{o.GetCommand(), o.GetWhat(), o.GetCure()}
		g := found[k]
		if g == nil {
			g = &sameObstacle{first: o, since: o.GetSince()}
			found[k], groups = g, append(groups, g)
			continue
		}
		if g.more++; o.GetSince() != nil && (g.since == nil || o.GetSince().AsTime().Before(g.since.AsTime())) {
			g.since = o.GetSince()
		}
	}
	return groups
}

// String names the first process with the obstacle, and how many more have it.
func (g *sameObstacle) String() string { return obstacleText(g.first, g.more) }

// obstacleText says what an obstacle is. more is the number of further processes that have it.
func obstacleText(o *rpc.Obstacle, more int) string {
	s := o.GetProgram()
	if o.GetNode() != "" {
		s += " on " + o.GetNode()
	}
	if o.GetPid() != 0 {
		s += fmt.Sprintf(": process %d", o.GetPid())
		if o.GetCommand() != "" {
			s += " (" + o.GetCommand() + ")"
		}
		if more > 0 {
			s += fmt.Sprintf(" and %d more", more)
		}
	}
	s += ": " + o.GetWhat()
	if o.GetCure() != "" {
		s += ": " + o.GetCure()
	}
	return safeLine(strings.TrimPrefix(s, ": "))
}

// textForPeople is an error's text without the obstacles that proxyd names at its end: they stand below the text, each on
// a line of its own.
func textForPeople(err error) string {
	var e *rpc.Error
	text := err.Error()
	if !errors.As(err, &e) || len(e.Obstacles) == 0 {
		return text
	}
	first := e.Obstacles[0]
	begin := first.GetWhat()
	if first.GetPid() != 0 {
		begin = fmt.Sprintf("%s (PID %d", first.GetCommand(), first.GetPid())
	}
	if at := strings.Index(text, begin); at >= 0 {
		return text[:at] + "this cannot be captured:"
	}
	return text
}
