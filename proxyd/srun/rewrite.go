// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Layout has the nodes of a job and of a step's tasks in this run.
type Layout struct {
	// Nodes maps the node names of the job's first start to those of this run. Other names stay.
	Nodes map[string]string
	// Tasks is the node of each task in this run. Tasks is set when a step's tasks are to be restored: then srun's options
	// and variables for the layout are dropped.
	Tasks []string
	// Overcommit allows more tasks than CPUs on a node. It counts with Tasks only.
	Overcommit bool
	// FewerGPUs says that the job has fewer GPUs than it began with: then a step cannot have the GPUs that it asks for,
	// and gets those that there are. Its tasks see the devices of their capsules all the same.
	FewerGPUs bool
}

// RewriteParameters has the data that turns a call from within a capsule into a call of this run of the job.
type RewriteParameters struct {
	Layout
	Key     string            // of the step; its tasks find the key in SINGULARITY_SLURM_STEP
	Job     map[string]string // environment of the batch step in this run
	Was     map[string]string // the same of the job's first run, which the script in the capsule has seen
	Release string            // of Slurm, as "24.11"; "" is any release
	Help    []byte            // the output of `srun --help`, to know the options of plugins

	MPIDefault string // Slurm's MpiDefault
}

// KeyVariable is the environment variable by which a step's tasks know its key.
const KeyVariable = "SINGULARITY_SLURM_STEP"

// Command is the command to run. The file with index i must be readable for the command at filePath(i).
type Command struct {
	Args, Env []string
	Files     [][]byte
	NoInput   bool   // srun does not read its standard input
	Notice    string // for the user, before srun runs
}

// firstFile is a descriptor that srun itself does not open, because it opens only a few.
const firstFile = 100

// filePath is the path by which a Command's arguments and environment name its files.
func filePath(i int) string { return "/proc/self/fd/" + strconv.Itoa(firstFile+i) }

// ErrHet is returned for a call with several components (":") with tasks that are to be
// restored: their layout cannot be forced.
var ErrHet = errors.New("a step of several components cannot be restored, for Slurm does not tell its tasks apart: start its programs with srun --multi-prog")

// laidOut are the options that a known layout replaces.
var laidOut = []string{
	"nodelist", "nodefile", "exclude", "nodes", "relative", "distribution",
	"ntasks", "ntasks-per-node", "ntasks-per-core", "ntasks-per-socket", "ntasks-per-gpu", "ntasks-per-tres",
	"contiguous", "use-min-nodes", "spread-job", "spread-segments", "consolidate-segments", "switches", "segment",
}

// laidOutVariables are the variables that mean the same as these options, and that no option of ours overrides.
var laidOutVariables = []string{
	"SLURM_HOSTFILE", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_SOCKET",
	"SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_TRES", "SLURM_USE_MIN_NODES", "SLURM_SPREAD_JOB",
	"SLURM_SPREAD_SEGMENTS", "SLURM_CONSOLIDATE_SEGMENTS", "SLURM_REQ_SWITCH", "SLURM_WAIT4SWITCH",
}

// Rewrite returns the call as it must be made in this run. read reads a file that the call names, with the caller's
// rights; a file that read cannot read stays unchanged.
func (c *Call) Rewrite(r RewriteParameters, read func(path string) ([]byte, error)) (Command, error) {
	t := NewTable(r.Release)
	t.Learn(r.Help)
	w := &rewriter{RewriteParameters: r, table: t, read: read}
	var parts []component
	if len(c.Args) > 0 {
		parts = splitComponents(t, c.Args[1:])
	}
	if err := errors.Join(w.chooseMPI(parts, c.Env), w.chooseTerminal(parts, c.Env)); err != nil {
		return Command{}, err
	}
	w.out.NoInput = w.onTerminal || !slices.ContainsFunc(parts, func(part component) bool { return readsInput(part.opts, c.Env) })
	w.out.Env = w.rewriteEnviron(c.Env)
	if len(c.Args) > 0 {
		w.out.Args = []string{c.Args[0]}
		for i, part := range parts {
			if i > 0 {
				w.out.Args = append(w.out.Args, ":")
			}
			if i > 0 && len(r.Tasks) > 0 {
				return Command{}, ErrHet
			}
			part.opts = w.withoutTerminals(w.withoutMPI(part.opts, c.Env))
			w.rewriteComponent(part)
		}
	}
	return w.out, nil
}

// component is the options and the program of a part of a call; nearly all calls have a single
// part.
type component struct {
	opts []givenOption
	rest []string
}

func splitComponents(t Table, words []string) []component {
	var all []component
	for {
		opts, rest := t.parseWords(words)
		end := slices.Index(rest, ":")
		if end < 0 {
			return append(all, component{opts, rest})
		}
		all = append(all, component{opts, rest[:end]})
		words = rest[end+1:]
	}
}

type rewriter struct {
	RewriteParameters
	table Table
	read  func(string) ([]byte, error)
	out   Command

	served string // the variable of the server that serves the tasks within the capsules; "" if there is no server

	onTerminal, withoutPty bool // the step's first task has a terminal of ours; --pty is left out
}

func (w *rewriter) rewriteComponent(part component) {
	if asksForHelp(part.opts) {
		w.emitWords(part)
		return
	}
	if w.FewerGPUs {
		part.opts = withoutGPUs(part.opts)
	}
	if len(w.Tasks) > 0 {
		part.opts = w.replaceLayout(part.opts)
	}
	arbitrary := false
	for _, g := range part.opts {
		if canonicalName(g.option) == "distribution" {
			arbitrary = strings.HasPrefix(strings.ToLower(g.value), "arb")
		}
	}
	for i, g := range part.opts {
		switch name := canonicalName(g.option); {
		case name == "export" && w.Key != "":
			part.opts[i] = g.withValue(w.exportedNames() + "," + g.value)
		case len(w.Nodes) == 0 || len(w.Tasks) > 0:
		case name == "nodefile", (name == "nodelist" || name == "exclude") && strings.Contains(g.value, "/"):
			if path, ok := w.translateFile(g.value); ok {
				part.opts[i] = g.withValue(path)
			}
		case name == "nodelist" || name == "exclude":
			if list := translateHosts(g.value, w.Nodes, arbitrary); list != g.value {
				part.opts[i] = g.withValue(list)
			}
		}
	}
	w.emitWords(part)
}

func (w *rewriter) emitWords(part component) {
	for _, g := range part.opts {
		w.out.Args = append(w.out.Args, g.asWords()...)
	}
	w.out.Args = append(w.out.Args, part.rest...)
}

func asksForHelp(opts []givenOption) bool {
	return slices.ContainsFunc(opts, func(g givenOption) bool {
		return slices.Contains([]string{"help", "usage", "version", "autocomplete"}, g.option.Name)
	})
}

// replaceLayout replaces all options about the layout by options for the known layout. The list of nodes is a file: an
// argument cannot be longer than 128 KiB.
func (w *rewriter) replaceLayout(opts []givenOption) []givenOption {
	opts = slices.DeleteFunc(opts, func(g givenOption) bool { return slices.Contains(laidOut, canonicalName(g.option)) })
	list := w.addFile([]byte(strings.Join(w.Tasks, "\n") + "\n"))
	ours := []givenOption{
		w.newOption("nodelist", list),
		w.newOption("distribution", "arbitrary"), // a list of nodes cannot express how tasks are distributed within a node
		w.newOption("ntasks", strconv.Itoa(len(w.Tasks))),
	}
	if w.Overcommit {
		ours = append(ours, givenOption{option: w.table.long["overcommit"]})
	}
	return append(ours, opts...)
}

func (w *rewriter) newOption(name, value string) givenOption {
	return givenOption{option: w.table.long[name], value: value, hasValue: true}
}

// addFile adds a file and returns its path.
func (w *rewriter) addFile(content []byte) string {
	w.out.Files = append(w.out.Files, content)
	return filePath(len(w.out.Files) - 1)
}

// translateFile returns the path of a translated copy of a file of nodes; false if the file need not or cannot be
// translated: srun then reports an error in the file.
func (w *rewriter) translateFile(path string) (string, bool) {
	b, err := w.read(path)
	if err != nil {
		return "", false
	}
	translated := translateHostFile(b, w.Nodes)
	if string(translated) == string(translateHostFile(b, nil)) {
		return "", false
	}
	return w.addFile(translated), true
}

// String is for logs: the command's arguments, without its environment.
func (c Command) String() string { return fmt.Sprintf("%q", c.Args) }
