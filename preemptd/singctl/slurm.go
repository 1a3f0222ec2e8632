// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// slurm are singctl's requests to Slurm's own commands. They are on every node that has singctl, and run with the
// rights of the caller.
type slurm struct {
	// tellSilence is called when slurmctld does not answer; then the command is run again until
	// slurmctld answers, or the person interrupts. nil: a silent slurmctld is an error.
	tellSilence func()
}

// silenceInterval is how long to wait before a silent slurmctld is asked again.
const silenceInterval = time.Second

// runCommand runs a command of Slurm's and returns its output.
func (s slurm) runCommand(ctx context.Context, program string, args ...string) (string, error) {
	for {
		out, err := runCommand(ctx, program, args...)
		if s.tellSilence == nil || !errors.Is(err, rpc.ErrUnreachable) {
			return out, err
		}
		s.tellSilence()
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(silenceInterval):
		}
	}
}

// Reasons for which a command of Slurm's fails.
var (
	errSlurmSilent     = errors.New("slurmctld does not answer")
	errUnknownJob      = errors.New("no job of Slurm's")
	errUnknownNode     = errors.New("no node of Slurm's")
	errNoAdministrator = errors.New("for administrators of Slurm only")
	errNodeState       = errors.New("the nodes are in that state already")
)

// slurmTexts are the messages of Slurm's commands by which the reasons are known. slurmctld is silent while it is away or
// starts. Nothing else in singctl reads these messages.
var slurmTexts = []struct {
	pattern *regexp.Regexp
	reason  error
}{
	{regexp.MustCompile(`Unable to contact slurm controller|Socket timed out on send/recv|Zero Bytes were transmitted or received|in standby mode`), errSlurmSilent},
	{regexp.MustCompile(`Invalid job id|Job \S+ not found$`), errUnknownJob},
	{regexp.MustCompile(`Invalid node name|Node \S+ not found`), errUnknownNode},
	{regexp.MustCompile(`Invalid user id|Access/permission denied`), errNoAdministrator},
	{regexp.MustCompile(`Invalid node state`), errNodeState},
}

// slurmError is the error of a command of Slurm's that has said why it fails. errors.Is finds the reason.
type slurmError struct {
	shown  *rpc.Error // as people read it
	reason error
}

func (e *slurmError) Error() string { return e.shown.Error() }

// Unwrap returns the error as people read it, and its reason.
func (e *slurmError) Unwrap() []error { return []error{e.shown, e.reason} }

// readSlurmError makes the error of a command from the message of the command.
func readSlurmError(program, said string) error {
	shown := &rpc.Error{Kind: rpc.ErrInternal, Text: program + ": " + said}
	for _, t := range slurmTexts {
		if !t.pattern.MatchString(said) {
			continue
		}
		if errors.Is(t.reason, errSlurmSilent) {
			shown = &rpc.Error{Kind: rpc.ErrUnreachable, Text: fmt.Sprintf("%v: %v", t.reason, shown), Hint: "scontrol ping says where it should run"}
		}
		return &slurmError{shown, t.reason}
	}
	return shown
}

func runCommand(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = time.Second
	if program == "sacct" {
		// Times as seconds, in place of the format and time zone that the user has chosen. Not for sbatch, which hands its
		// environment to the job.
		cmd.Env = append(os.Environ(), "SLURM_TIME_FORMAT=%s")
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", &rpc.Error{
			Kind: rpc.ErrUnsupported, Text: fmt.Sprintf("no %s in PATH: singctl runs where Slurm's commands do", program),
			Hint: "put the folder of Slurm's commands into PATH",
		}
	}
	if ctx.Err() != nil {
		return "", rpc.Errorf(rpc.ErrTimeout, "%s does not answer", program)
	}
	said := strings.TrimSpace(errs.String())
	if said == "" { // scontrol says on standard output that there is no such node
		said = cmp.Or(strings.TrimSpace(out.String()), err.Error())
	}
	return "", readSlurmError(program, said)
}

// job is a job as scontrol prints it.
type job struct {
	name string // in our notation
	node string // that runs the batch script; "" while no node does
}

// findJob looks a job up by the name that a person typed. A job that Slurm has forgotten is returned under that name,
// because the job may have checkpoints.
func (s slurm) findJob(ctx context.Context, typed string) (job, error) {
	if err := rpc.CheckJob(typed); err != nil {
		return job{}, err
	}
	out, err := s.runCommand(ctx, "scontrol", "show", "job", "--oneliner", typed)
	switch {
	case errors.Is(err, errUnknownJob):
		return job{name: typed}, nil
	case err != nil:
		return job{}, err
	}
	return parseJob(out, typed)
}

// parseJob reads the output of scontrol show job --oneliner: a line for each task of an array, and for each component
// of a heterogeneous job.
func parseJob(out, typed string) (job, error) {
	var lines []string
	for l := range strings.Lines(out) {
		if fieldOf(l, "JobId") != "" {
			lines = append(lines, l)
		}
	}
	named := "" // the first that has a name of its own
	for _, l := range lines {
		if named == "" {
			named = jobNameIn(l)
		}
	}
	switch {
	case len(lines) == 0:
		return job{name: typed}, nil
	case named == "":
		return job{}, rpc.Errorf(rpc.ErrInvalid, "job %s is an array of which no task has started", typed)
	case len(lines) > 1 && fieldOf(lines[0], "HetJobOffset") != "":
		return job{}, rpc.Errorf(rpc.ErrInvalid, "job %s has %d components; name one, as in %s", typed, len(lines), named)
	case len(lines) > 1:
		return job{}, rpc.Errorf(rpc.ErrInvalid, "job %s is an array; name one task, as in %s", typed, named)
	}
	j := job{name: named}
	switch fieldOf(lines[0], "JobState") {
	case "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "CONFIGURING", "SIGNALING", "STAGE_OUT":
		j.node = fieldOf(lines[0], "BatchHost")
	}
	return j, nil
}

var number = regexp.MustCompile(`^[0-9]+$`)

// jobNameIn returns a job's name in our notation; "" for tasks of an array that have not
// become jobs yet ("ArrayTaskId=3-9").
func jobNameIn(line string) string {
	if array := fieldOf(line, "ArrayJobId"); array != "" {
		task := fieldOf(line, "ArrayTaskId")
		if !number.MatchString(task) {
			return ""
		}
		return array + "_" + task
	}
	if het := fieldOf(line, "HetJobId"); het != "" {
		return het + "+" + fieldOf(line, "HetJobOffset")
	}
	return fieldOf(line, "JobId")
}

// fieldOf returns a value of a line of scontrol's --oneliner output.
func fieldOf(line, key string) string {
	for word := range strings.FieldsSeq(line) {
		if v, ok := strings.CutPrefix(word, key+"="); ok {
			return v
		}
	}
	return ""
}

// node is a node that can be asked.
type node struct{ name, address string }

// nodeAddress finds how to reach a node.
func (s slurm) nodeAddress(ctx context.Context, name string) (node, error) {
	out, err := s.runCommand(ctx, "scontrol", "show", "node", "--oneliner", name)
	switch {
	case errors.Is(err, errUnknownNode):
		return node{}, noNode(name)
	case err != nil:
		return node{}, err
	}
	address := fieldOf(out, "NodeAddr")
	if found := fieldOf(out, "NodeName"); found != name || address == "" {
		return node{}, noNode(name)
	}
	return node{name, address}, nil
}

func noNode(name string) error {
	return &rpc.Error{
		Kind: rpc.ErrInvalid, Text: fmt.Sprintf("node %.80q: Slurm knows none of that name", name),
		Hint: "sinfo --Node lists the nodes; --node names one, doctor --all asks all",
	}
}

// nodeNames returns the names of all nodes; up only: of the nodes that answer slurmctld.
func (s slurm) nodeNames(ctx context.Context, up bool) ([]string, error) {
	out, err := s.runCommand(ctx, "sinfo", "--noheader", "--Node", "--format=%N %t")
	if err != nil {
		return nil, err
	}
	var names []string
	for l := range strings.Lines(out) {
		f := strings.Fields(l)
		if len(f) != 2 || len(names) > 0 && names[len(names)-1] == f[0] { // once for each partition
			continue
		}
		if state := f[1]; up && (strings.HasSuffix(state, "*") || strings.HasPrefix(state, "down") || strings.HasPrefix(state, "unk")) {
			continue
		}
		names = append(names, f[0])
	}
	return names, nil
}

// queuedJobs lists the caller's jobs in the queue: "812\ttrain".
func (s slurm) queuedJobs(ctx context.Context) ([]string, error) {
	out, err := s.runCommand(ctx, "squeue", "--noheader", "--me", "--format=%i\t%j")
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(out), "\n"), nil
}

// isSilence tells whether an error of a command of Slurm's says that slurmctld does not answer.
func isSilence(err error) bool {
	return errors.Is(err, errSlurmSilent) || errors.Is(err, rpc.ErrTimeout)
}

// slurmConfPlaces are the files in which hosts have slurm.conf, unless SLURM_CONF names it; the second is that of hosts
// that get it from slurmctld.
var slurmConfPlaces = []string{"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/usr/local/etc/slurm.conf", "/opt/slurm/etc/slurm.conf"}

// nodesOfFile returns the nodes that slurm.conf of this host lists, and the path of that file: slurmctld is not asked.
func (s slurm) nodesOfFile(ctx context.Context) (all []node, file string, err error) {
	places := slurmConfPlaces
	if named, ok := os.LookupEnv("SLURM_CONF"); ok && named != "" {
		places = []string{named}
	}
	for _, file = range places {
		lines, err := readNodeLines(file, 4)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		for _, line := range lines {
			more, err := s.expandNodeLine(ctx, line)
			if err != nil {
				return nil, "", fmt.Errorf("%s: NodeName=%s: %w", file, line.names, err)
			}
			all = append(all, more...)
		}
		if len(all) > 0 {
			return all, file, nil
		}
	}
	return nil, "", fmt.Errorf("no nodes in %s", strings.Join(places, ", "))
}

// nodeLine has what a line of slurm.conf says of nodes, as host lists.
type nodeLine struct{ names, addresses string }

// readNodeLines reads the lines of nodes from slurm.conf and from files that it includes.
func readNodeLines(file string, depth int) ([]nodeLine, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []nodeLine
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 2 && strings.EqualFold(words[0], "include") && depth > 0 {
			path := words[1]
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(file), path)
			}
			more, err := readNodeLines(path, depth-1)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
			all = append(all, more...)
			continue
		}
		if len(words) == 0 || !strings.HasPrefix(strings.ToLower(words[0]), "nodename=") {
			continue
		}
		var n nodeLine
		for _, word := range words {
			key, value, _ := strings.Cut(word, "=")
			switch strings.ToLower(key) {
			case "nodename":
				n.names = value
			case "nodeaddr":
				n.addresses = value
			}
		}
		if n.names != "DEFAULT" {
			all = append(all, n)
		}
	}
	return all, nil
}

// expandNodeLine returns the nodes of a line of slurm.conf. A node without an address of its own has its name for that.
func (s slurm) expandNodeLine(ctx context.Context, line nodeLine) ([]node, error) {
	names, err := s.expandHosts(ctx, line.names)
	if err != nil {
		return nil, err
	}
	addresses := names
	if line.addresses != "" {
		if addresses, err = s.expandHosts(ctx, line.addresses); err != nil {
			return nil, err
		}
	}
	if len(addresses) != len(names) {
		return nil, fmt.Errorf("%d names and %d addresses", len(names), len(addresses))
	}
	all := make([]node, len(names))
	for i := range names {
		all[i] = node{names[i], addresses[i]}
	}
	return all, nil
}

// expandHosts returns the names that a host list stands for. scontrol does not ask slurmctld for that.
func (s slurm) expandHosts(ctx context.Context, list string) ([]string, error) {
	out, err := s.runCommand(ctx, "scontrol", "show", "hostnames", list)
	return strings.Fields(out), err
}
