// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// gcCommand is singctl gc.
type gcCommand struct{ *app }

func (a gcCommand) buildCobra() *cobra.Command {
	var olderThan, keep string
	var dryRun bool
	c := &cobra.Command{
		Use: "gc", Short: "Delete old checkpoints, and data that no checkpoint needs; for operators",
		Long: `gc deletes checkpoints as the flags say, or else as proxyd.yaml does (keep, keep_for), and then every
chunk that no checkpoint needs. It is safe while checkpoints and restores are under way on any node.

With --older-than, checkpoints older than AGE go; with --keep, all but the newest N of each job; with both,
those that are older than AGE and not among the newest N. What --keep names stays at any age, also of jobs
that have ended. The newest checkpoint of a job that has not ended always stays. To delete every checkpoint
of a job: see singctl delete.

Of a checkpoint that is damaged nobody knows which chunks it needs. It is named, the exit code is 8, and
no chunk is deleted until it was: see singctl delete.`,
		Args: argumentCount(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := &rpc.GCRequest{DryRun: dryRun}
			if olderThan != "" {
				d, err := parseAge(olderThan)
				if err != nil {
					return err
				}
				req.OlderThan = durationpb.New(d)
			}
			if keep != "" {
				n, err := strconv.ParseUint(keep, 10, 31)
				if err != nil || n == 0 {
					return rpc.Errorf(rpc.ErrInvalid, "--keep %.40q: want a number, at least 1", keep)
				}
				k := uint32(n)
				req.Keep = &k
			}
			return a.callAnyDaemon(cmd.Context(), func(c *rpc.Client) error {
				p := a.newProgress()
				defer p.endLine()
				r, err := c.GC(cmd.Context(), req, p.showProgress)
				p.endLine()
				if err != nil {
					return err
				}
				if a.json {
					a.printMessage(r)
				} else {
					a.printGC(r)
				}
				if len(r.GetDamaged()) > 0 {
					return errFound
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&olderThan, "older-than", "", "delete checkpoints older than `AGE`, such as 12h or 7d")
	c.Flags().StringVar(&keep, "keep", "", "leave the newest `N` of each job, at least 1; without --older-than, delete all others")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be deleted, and delete nothing")
	return c
}

func (a gcCommand) printGC(r *rpc.GCReport) {
	did := "deleted"
	if r.GetDryRun() {
		did = "would delete"
	}
	for _, id := range r.GetExpired() {
		fmt.Fprintf(a.stdout, "%s checkpoint %s\n", did, safeLine(id))
	}
	fmt.Fprintf(a.stdout, "%s %s and %s of %s", did, formatPlural(int64(len(r.GetExpired())), "checkpoint"), formatPlural(r.GetChunks(), "chunk"), bytesText(r.GetBytes()))
	if r.GetWaiting() > 0 {
		fmt.Fprintf(a.stdout, "; %s until dumps and restores under way have ended", formatPlural(r.GetWaiting(), "more chunk"))
	}
	fmt.Fprintln(a.stdout)
	if r.GetOpen() > 0 {
		fmt.Fprintf(a.stdout, "deleted and kept, with all chunks: %s, until dumps and restores under way have ended\n", formatPlural(r.GetOpen(), "checkpoint"))
	}
	if r.GetSpared() > 0 {
		until := timestamppb.New(r.GetSparedUntil().AsTime().Add(time.Second - 1)) // the first whole second
		fmt.Fprintf(a.stdout, "kept for now: %s of %s, new and in no checkpoint; a gc after %s deletes those that no dump under way needs\n",
			formatPlural(r.GetSpared(), "chunk"), bytesText(r.GetSparedBytes()), timeText(until))
	}
	for _, d := range r.GetDamaged() {
		fmt.Fprintf(a.stdout, "DAMAGED %s: %s\n", safeLine(d.GetCheckpoint()), safeLine(d.GetProblem()))
	}
	if len(r.GetDamaged()) > 0 {
		fmt.Fprintln(a.stdout, "no chunk goes while these are there: singctl delete takes them away, unless this node has a wrong key")
	}
}

// parseAge reads "90m", "12h" or "7d"; days are the only unit that Go's own does not know.
func parseAge(s string) (time.Duration, error) {
	wrong := rpc.Errorf(rpc.ErrInvalid, "--older-than %.40q: want an age as in 90m, 12h or 7d", s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, wrong
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, wrong
	}
	return d, nil
}
