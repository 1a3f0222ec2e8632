// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// policyCommand is singctl policy.
type policyCommand struct{ *app }

func (a policyCommand) buildCobra() *cobra.Command {
	c := &cobra.Command{
		Use: "policy", Short: "Look at policies, and try them", SuggestionsMinimumDistance: 2,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return rpc.Errorf(rpc.ErrInvalid, "unknown command %q%s", "policy "+args[0], didYouMean(cmd, args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.policyList(), a.policyRecord(), a.policyTest())
	return c
}

func (a policyCommand) policyList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the policies in the order in which they are asked, and how they do", Args: argumentCount(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.askController(cmd.Context(), func(c *control.Client) error {
				s, err := c.Status(cmd.Context())
				switch {
				case err != nil:
					return err
				case a.json:
					list := make([]any, len(s.GetPolicies()))
					for i, p := range s.GetPolicies() {
						list[i] = jsonObject(p.ProtoReflect())
					}
					a.printJSON(map[string]any{"policies": list})
				case len(s.GetPolicies()) == 0:
					fmt.Fprintln(a.stdout, "no policies are configured: preemptd does what people ask, and nothing by itself")
				default:
					printTable(a.stdout, policyRows(s.GetPolicies()))
				}
				return nil
			})
		},
	}
}

// policyRows is policies as a table.
func policyRows(policies []*control.Policy) [][]string {
	rows := [][]string{{"POLICY", "STATE", "FAILURES", "PROBLEM"}}
	for _, p := range policies {
		state := "not started"
		switch {
		case p.GetUntil() != nil:
			state = "rests until " + timeText(p.GetUntil())
		case p.GetRunning():
			state = "running"
		}
		rows = append(rows, []string{p.GetName(), state, fmt.Sprint(p.GetFailures()), orDefault(p.GetProblem(), "-")})
	}
	return rows
}

func (a policyCommand) policyRecord() *cobra.Command {
	return &cobra.Command{
		Use: "record FILE", Short: "Save what policies see of the cluster, to try policies on it later", Args: argumentCount(1, 1, "a file"),
		Long: `record saves what policies saw last into a new file: singctl policy test --snapshot FILE tries them on it. It
names all jobs and their users. For operators.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.askController(cmd.Context(), func(c *control.Client) error {
				data, err := c.Snapshot(cmd.Context())
				if err != nil {
					return err
				}
				f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
				if errors.Is(err, os.ErrExist) {
					return rpc.Errorf(rpc.ErrInvalid, "%s is there already", args[0])
				}
				if err != nil {
					return err
				}
				if _, err := f.Write(data); err != nil {
					return errors.Join(err, f.Close(), os.Remove(args[0]))
				}
				if err := f.Close(); err != nil {
					return err
				}
				if a.json {
					a.printJSON(map[string]any{"file": args[0], "bytes": len(data)})
					return nil
				}
				fmt.Fprintf(a.stdout, "saved %s into %s\n", bytesText(int64(len(data))), safeLine(args[0]))
				return nil
			})
		},
	}
}

func (a policyCommand) policyTest() *cobra.Command {
	var snapshot, file, at string
	req := &control.TryRequest{}
	c := &cobra.Command{
		Use: "test", Short: "Say what policies would do now, and why; changes nothing", Args: argumentCount(0, 0, ""),
		Long: `test asks the policies, as they are configured, what they would do on what preemptd saw of the cluster last, and
tries that as preemptd does: what is accepted is what it would begin. Nothing is done. The processes are others
than those that decide. For operators.

With --file the policy starlark is asked alone, with that file in place of the site's policy.star. With --at policies
are asked as if it was then and all else as it is: a policy that goes by the hour or the weekday is tried by that.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if at != "" {
				moment, err := parseMoment(at, time.Now())
				if err != nil {
					return err
				}
				req.At = timestamppb.New(moment)
			}
			if snapshot != "" {
				if req.Snapshot, err = readBounded(snapshot, 60<<20); err != nil {
					return err
				}
			}
			if file != "" {
				text, err := readBounded(file, 1<<20)
				if err != nil {
					return err
				}
				if req.File, req.FileName = string(text), filepath.Base(file); req.File == "" {
					return rpc.Errorf(rpc.ErrInvalid, "%s is empty", file)
				}
			}
			return a.askController(cmd.Context(), func(c *control.Client) error {
				reply, err := c.Try(cmd.Context(), req)
				if err != nil {
					return err
				}
				return a.printTried(reply)
			})
		},
	}
	c.Flags().StringVar(&snapshot, "snapshot", "", "ask about the cluster as singctl policy record saved it in `FILE`")
	c.Flags().StringVar(&at, "at", "", "ask as if it was this `TIME`: 22:30 of today, or 2026-03-07 22:30, local time; or 2026-03-07T22:30:00Z")
	c.Flags().StringVar(&file, "file", "", "try this `FILE` in place of the site's policy.star")
	c.Flags().StringSliceVar(&req.Policies, "policies", nil, "ask these, of `NAMES` separated by commas, in this order")
	return c
}

// parseMoment reads a time as people write it.
func parseMoment(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	t, err := time.ParseInLocation("15:04", text, now.Location())
	if err != nil {
		return t, rpc.Errorf(rpc.ErrInvalid, "--at %s: want 22:30, 2026-03-07 22:30 or 2026-03-07T22:30:00Z", text)
	}
	return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, now.Location()), nil
}

func readBounded(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, rpc.Errorf(rpc.ErrInvalid, "%v", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = rpc.Errorf(rpc.ErrInvalid, "%s is larger than %s", name, bytesText(most))
	}
	return data, err
}

// printTried prints the answers of policies. A policy that failed is a problem found.
func (a policyCommand) printTried(m *control.TryReply) error {
	var failed error
	for _, p := range m.GetPolicies() {
		if p.GetProblem() != "" {
			failed = errFound
		}
	}
	if a.json {
		a.printMessage(m)
		return failed
	}
	fmt.Fprintf(a.stdout, "cluster %s at %s: %s, %s\n", safeLine(m.GetCluster()), timeText(m.GetTime()), formatPlural(int64(m.GetNodes()), "node"), formatPlural(int64(m.GetJobs()), "job"))
	for _, p := range m.GetPolicies() {
		fmt.Fprintln(a.stdout)
		for _, line := range p.GetPrinted() {
			fmt.Fprintf(a.stdout, "%s printed: %s\n", safeLine(p.GetPolicy()), safeLine(line))
		}
		fmt.Fprintf(a.stdout, "%s: ", safeLine(p.GetPolicy()))
		switch {
		case p.GetProblem() != "":
			fmt.Fprintf(a.stdout, "PROBLEM: %s\n", strings.ReplaceAll(safeText(p.GetProblem()), "\n", "\n  "))
			continue
		case len(p.GetAccepted())+len(p.GetRejected()) == 0:
			fmt.Fprintln(a.stdout, "would do nothing")
			continue
		}
		fmt.Fprintf(a.stdout, "would do %s, and is refused %s\n", formatPlural(int64(len(p.GetAccepted())), "thing"), formatPlural(int64(len(p.GetRejected())), "thing"))
		for _, w := range p.GetAccepted() {
			after := ""
			if len(w.GetAfter()) > 0 {
				after = ", once these have left: " + joinNumbers(w.GetAfter())
			}
			fmt.Fprintf(a.stdout, "  %s%s\n      %s\n", safeLine(w.GetWhat()), after, safeLine(w.GetReason()))
		}
		for _, w := range p.GetRejected() {
			fmt.Fprintf(a.stdout, "  REFUSED %s: %s: %s\n      %s\n", safeLine(w.GetWhat()), safeLine(w.GetInvariant()), safeLine(w.GetDetail()), safeLine(w.GetReason()))
		}
	}
	return failed
}

func joinNumbers(all []int64) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = fmt.Sprint(n)
	}
	return strings.Join(texts, ", ")
}
