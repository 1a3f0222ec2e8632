// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// optionRule is about a line with #SBATCH. docs/silent-gaps.md has the same in words.
type optionRule struct {
	name  string
	value string // "" is any; with "*" at the end, how the value begins
	level Level
	do    string
}

var optionRules = append(fileRules(), []optionRule{
	{"--no-requeue", "", Unprotected, "take it away: a job that Slurm may not requeue cannot resume"},
	{"--singularity", "off", Unprotected, "take it away, or write --singularity"},
	{"hetjob", "", Unprotected, "ask for nodes of a single kind: heterogeneous jobs are not protected"},
	{"packjob", "", Unprotected, "ask for nodes of a single kind: heterogeneous jobs are not protected"},
}...)

// fileOptions name files that Slurm opens.
var fileOptions = []string{"--output", "-o", "--error", "-e", "--input", "-i"}

// fileRules are about files that Slurm opens in folders of the node which the job does not see.
func fileRules() (all []optionRule) {
	for _, name := range fileOptions {
		for _, beginning := range []string{"/tmp/*", "/var/tmp/*", "/dev/shm/*"} {
			all = append(all, optionRule{
				name, beginning, Uncaptured,
				"name another folder: /tmp, /var/tmp and /dev/shm of the job are its own, and Slurm opens this file on the node",
			})
		}
	}
	return all
}

func (r optionRule) matchesOption(o option) bool {
	beginning, open := strings.CutSuffix(r.value, "*")
	return o.name == r.name && (r.value == "" || o.value == r.value || open && strings.HasPrefix(o.value, beginning))
}

// commandRule is about a command of the script.
type commandRule struct {
	names []string
	with  func(arguments []string) bool // nil: always
	level Level
	do    string
}

var commandRules = []commandRule{
	{[]string{"salloc"}, nil, Unprotected, "an allocation of its own cannot be requeued: use the job's, by srun"},
	{[]string{"srun"}, hasWord(":"), Changed, "a step of several components that runs at a checkpoint fails when the job resumes: use --multi-prog"},
	{
		[]string{"sudo", "su", "doas", "pkexec"},
		nil, Uncaptured, "a process of another user than the job's cannot be restored, and the job is held: run it before the job, or as its user",
	},
	{
		[]string{"bwrap", "apptainer", "singularity", "podman", "docker", "unshare", "enroot", "ch-run"},
		nil, Uncaptured, "containers that a job starts itself are not captured: submit it with sbatch --container, or start the step with srun --container",
	},
	{[]string{"gdb", "strace", "ltrace", "rr"}, nil, Uncaptured, "programs under a debugger are not captured: leave it out when the job is not debugged"},
	{[]string{"perf"}, nil, Uncaptured, "programs that use perf events are not captured: measure in a job without --singularity"},
	{[]string{"sshfs", "squashfuse", "fusermount", "fusermount3"}, nil, Uncaptured, "file systems that the job serves by FUSE are not captured: mount them outside of the job"},
	{
		[]string{"inotifywait", "inotifywatch"},
		nil, Uncaptured, "watches by inotify are not captured where the file is on an overlay file system (the root of a diskless node, a container): " +
			"watch a folder of another file system, or look at intervals",
	},
	{[]string{"qemu-system-x86_64", "qemu-kvm"}, hasKVM, Uncaptured, "programs that use /dev/kvm are not captured: run it with -accel tcg"},
}

func (r commandRule) matchesCommand(c command) bool {
	return r.matchesWords(c.words) || r.matchesWords(launchedProgram(c.words, r.names))
}

func (r commandRule) matchesWords(words []string) bool {
	return len(words) > 0 && slices.Contains(r.names, path.Base(words[0])) && (r.with == nil || r.with(words[1:]))
}

// launchers start another program. Its name follows their options.
var launchers = []string{"srun", "mpirun", "mpiexec"}

// valueJoined is an option that has its value in the same word.
var valueJoined = regexp.MustCompile(`=|^-[A-Za-z][0-9]`)

// launchedProgram returns the words of the program that a launcher starts, if the program has one of these names;
// else nil. Which options of launchers have a value is not known: a word behind an option that may be its value may
// be the program as well.
func launchedProgram(words, names []string) []string {
	if !slices.Contains(launchers, path.Base(words[0])) {
		return nil
	}
	for i := 1; i < len(words); i++ {
		isOption := func(word string) bool { return strings.HasPrefix(word, "-") }
		switch {
		case isOption(words[i]):
		case slices.Contains(names, path.Base(words[i])):
			return words[i:]
		case !isOption(words[i-1]) || valueJoined.MatchString(words[i-1]):
			return nil // that is the program
		}
	}
	return nil
}

func hasWord(word string) func([]string) bool {
	return func(arguments []string) bool { return slices.Contains(arguments, word) }
}

func hasKVM(arguments []string) bool {
	return slices.ContainsFunc(arguments, func(a string) bool { return strings.Contains(a, "kvm") })
}
