//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// makeSecrets makes files of root's and of bob's that look like alice's: of the same length, with the same permissions.
const makeSecrets = `secret() { printf 'secret%58s\n' . > $1; chmod 600 $1; }
	mkdir -m 700 /shared/root; cd /shared/root; mkdir -m 755 folder; mkdir -m 700 closed closed/in
	for f in key closed/key closed/in/key; do secret $f; done
	chmod 755 /shared/root ~bob; secret ~bob/key; chown bob: ~bob/key`

// makeMine begins the job's script, and the script that alice runs before.
const makeMine = `mine() { printf 'mine%60s\n' . > $1; chmod 600 $1; }; mkdir -p ~/DIR; cd ~/DIR
`

// endOfScript returns the end of a job's script, with commands that only the restored job runs.
func endOfScript(then string) string {
	return "echo ready; while [ ! -e ~/go.$SLURM_JOB_ID ]; do sleep 0.1; done\n" + then
}

// waitsInPython prints "ready" and waits, as endOfScript does, in a Python program.
const waitsInPython = `print("ready", flush=True)
while not os.path.exists(os.path.expanduser("~/go." + os.environ["SLURM_JOB_ID"])): time.sleep(0.1)
`

// inPython returns a script with a Python program that runs begin, waits, and then runs then.
func inPython(begin, then string) string {
	return "python3 -c 'import ctypes, mmap, os, socket, time\n" + begin + "\n" + waitsInPython + then + "'"
}

// replacement is a job of alice's. Its files are replaced while the job is queued.
type replacement struct {
	options string
	files   string   // alice's script, before the job: a restore puts files back that the job itself makes
	script  string   // the job's
	user    string   // the user that replaces the file; "" is root
	replace string   // the script that replaces the files
	held    []string // texts in the comment of the held job
	want    string   // the output of the restored job, unless the job is to be held
}

// replacements are the cases of TestReplacedFiles, by their names.
var replacements = map[string]replacement{
	"file to read": {
		script: "exec 7<key; " + endOfScript("echo after; cat <&7"),
		user:   "alice", replace: "rm key; ln -s /shared/root/key key", held: []string{"/key"},
	},
	"file to write": {
		options: "--singularity-exclude=/shared/home/alice",
		script:  "exec 7<>key; " + endOfScript("echo after; echo mine >&7"),
		user:    "alice", replace: "rm key; ln -s /shared/root/key key", held: []string{"/key"},
	},
	"another user's file": {
		script: "exec 7<key; " + endOfScript("echo after; cat <&7"),
		user:   "alice", replace: "rm key; ln -s ~bob/key key", held: []string{"/key"},
	},
	"folder above": {
		files:  "mkdir -m 700 sub; mine sub/key",
		script: "exec 7<sub/key; " + endOfScript("echo after; cat <&7"),
		user:   "alice", replace: "rm -r sub; ln -s /shared/root/closed sub", held: []string{"/sub/key"},
	},
	"folder above, of one's own": {
		files:  "mkdir -m 700 sub; mine sub/key",
		script: "exec 7<sub/key; " + endOfScript("echo after; cat <&7"),
		user:   "alice", replace: "mv sub other; ln -s other sub", held: []string{"/sub/key", "other/key"},
	},
	"working folder": {
		files:  "mkdir -m 700 in; mine in/key",
		script: "cd in; " + endOfScript("echo after; cat key; ls"),
		user:   "alice", replace: "rm -r in; ln -s /shared/root/closed/in in", held: []string{"/in"},
	},
	"folder that is open": {
		files:  "mkdir -m 700 in",
		script: "exec 7<in; " + endOfScript("echo after; ls /proc/self/fd/7/"),
		user:   "alice", replace: "rm -r in; ln -s /shared/root/closed/in in", held: []string{"/in"},
	},
	"mapped file": {
		script: inPython(`f = os.open("key", os.O_RDONLY); m = mmap.mmap(f, 64, prot=mmap.PROT_READ); os.close(f)`, `print("after", m[:])`),
		user:   "alice", replace: "rm key; ln -s /shared/root/key key", held: []string{"/key"},
	},
	"pipe": {
		options: "--singularity-exclude=/shared/home/alice", // else the restore makes the file again, because it is open for writing
		files:   "mkfifo -m 600 pipe",
		script:  "exec 7<>pipe; " + endOfScript("echo after; read -r -t 5 x <&7; echo $x"),
		user:    "alice", replace: "rm pipe; ln -s /shared/root/key pipe", held: []string{"/pipe"},
	},
	"folder of a removed file": {
		files:  "mkdir sub",
		script: "mine sub/gone; exec 7<>sub/gone; rm sub/gone; " + endOfScript("echo after; cat <&7"),
		user:   "alice", replace: "rmdir sub; ln -s /shared/root/closed sub", held: []string{"sub"},
	},
	"folder of a socket": {
		files:  "mkdir sub",
		script: inPython(`s = socket.socket(socket.AF_UNIX); s.bind("sub/socket"); s.listen()`, `print("after", os.stat("sub/socket"))`),
		user:   "alice", replace: "rm -r sub; ln -s /shared/root/closed sub", held: []string{"sub/socket"},
	},
	"System V": {
		script: inPython(`f = os.open("key", os.O_RDONLY); assert ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0`, `print("after", os.read(f, 64))`),
		user:   "alice", replace: "rm key; ln -s /shared/root/key key", held: []string{"/key"},
	},
	"System V, socket behind a link": {
		files: "mkdir sub",
		script: inPython(`os.symlink(os.path.abspath("sub"), "/tmp/link"); s = socket.socket(socket.AF_UNIX); s.bind("/tmp/link/socket"); s.listen()
assert ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0`, `print("after", os.stat("/tmp/link/socket"))`),
		user: "alice", replace: "rm -r sub; ln -s /shared/root/closed sub", held: []string{"/tmp/link/socket"},
	},
	"taken away": {
		script:  "exec 7<key; " + endOfScript("echo after; cat <&7"),
		replace: "chown bob key", held: []string{"/key", "belongs to bob", "alice"},
	},
	"no right to read": {
		files:   "mkdir sub; mine sub/key",
		script:  "exec 7<sub/key; " + endOfScript("echo after; cat <&7"),
		replace: "chown root sub; chmod 700 sub", held: []string{"/sub/key", "Permission denied"},
	},
	"another group": {
		script:  "exec 7<key; " + endOfScript("echo after; cat <&7"),
		replace: "chgrp bob key", held: []string{"/key", "group"},
	},

	// A file that the user may open is restored, even if the file cannot be opened in the same mode again.
	"file that cannot be written to": {script: "exec 7>>key; chmod 444 key; " + endOfScript("echo after >&7; tail -n 1 key"), want: "after"},
	"file that cannot be read":       {script: "exec 7<key; chmod 0 key; " + endOfScript("chmod 600 key; grep -o mine <&7"), want: "mine"},
	"removed file":                   {script: "exec 7<>key; rm key; " + endOfScript("grep -o mine /proc/self/fd/7"), want: "mine"},
	"same again":                     {script: "exec 7<key; " + endOfScript("grep -o mine <&7"), user: "alice", replace: "cp -p key new; mv new key", want: "mine"},
	"group of one's":                 {script: "chgrp proj key; chmod 640 key; exec 7<key; " + endOfScript("grep -o mine <&7"), want: "mine"},

	"rights":           {script: compareRights, want: "same"},
	"no new rights":    {script: "setpriv --no-new-privs bash -c '" + compareRights + "'", want: "same"},
	"System V, rights": {script: "ipcmk -M 4096 >/dev/null; " + compareRights, want: "same"},
}

// compareRights is a script that compares the rights of its shell with its rights before the restore.
var compareRights = "rights() { grep -E \"^(Cap|Uid|Gid|Groups|NoNewPrivs|Seccomp)\" /proc/$$/status; }; was=$(rights); " +
	endOfScript("[ \"$was\" = \"$(rights)\" ] && echo same || { echo \"$was\"; echo; rights; }")

// submitIn submits a script of alice's in a folder that has a file "key".
func (c protected) submitIn(t *testing.T, dir, options, files, script string) (job string) {
	t.Helper()
	begin := strings.ReplaceAll(makeMine, "DIR", dir)
	c.runScript(t, "cd; "+begin+"mine key; "+files)
	return c.submitJob(t, "--singularity "+options, begin+script)
}

// captureAndHold has a job captured and held in the queue.
func (c protected) captureAndHold(t *testing.T, job string) {
	t.Helper()
	c.waitForLine(t, job, "ready")
	c.runAsRoot(t, "scontrol requeuehold "+job)
}

func (c protected) isQueued(t *testing.T, job string) {
	t.Helper()
	waitFor(t, 120*time.Second, func() (bool, string) {
		s := c.showColumn(t, job, "State")
		return s == "PENDING" || s == "REQUEUE_HOLD", "job " + job + ": " + s
	})
}

// isHeld waits until a job is held for a reason, and checks that the job has not run on.
func (c protected) isHeld(t *testing.T, job string, reasons ...string) {
	t.Helper()
	waitFor(t, 120*time.Second, func() (bool, string) {
		s := c.showColumn(t, job, "Comment")
		ok := strings.Contains(s, "held: ")
		for _, r := range reasons {
			ok = ok && strings.Contains(s, r)
		}
		return ok, fmt.Sprintf("job %s: comment %q, want %q; log:\n%s", job, s, reasons, c.jobLog(job))
	})
	t.Log(c.showColumn(t, job, "Comment"))
	if log := c.jobLog(job); log != "ready" {
		t.Errorf("job %s has run on, its log:\n%s", job, log)
	}
	c.runAsRoot(t, "scancel "+job)
}

// secretsUntouched checks that the files of root and bob are unchanged, and that there are no files beside them.
func (c protected) secretsUntouched(t *testing.T) {
	t.Helper()
	got := c.runAsRoot(t, "cd /shared/root; cat key closed/key closed/in/key ~bob/key | sort | uniq -c; stat -c %U%a key ~bob/key closed; find . | sort | tr '\\n' ' '")
	want := fmt.Sprintf("4 secret%58s\nroot600\nbob600\nroot700\n. ./closed ./closed/in ./closed/in/key ./closed/key ./folder ./key", ".")
	if got != want {
		t.Errorf("root's and bob's files are %q, want %q", got, want)
	}
}

// TestReplacedFiles: if a user replaces files that a job has open by any other file, the restored job has the same file
// as before if the user may open it, or is held with the file's name.
func TestReplacedFiles(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-replaced", "--nodes", "2")
	c.runAsRoot(t, makeSecrets)
	swapped := c.submitIn(t, "swapped", "", "", readsWhenAsked)

	// All jobs are taken through each step together. So the test takes a minute, not ten.
	names := slices.Sorted(maps.Keys(replacements))
	jobs, dirs := map[string]string{}, map[string]string{}
	for _, name := range names {
		r := replacements[name]
		dirs[name] = strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name)
		jobs[name] = c.submitIn(t, dirs[name], r.options, r.files, r.script)
	}
	c.captureAndHold(t, swapped)
	for _, name := range names {
		c.captureAndHold(t, jobs[name])
	}
	var all []string
	for _, name := range names {
		c.isQueued(t, jobs[name])
		if r := replacements[name]; r.replace != "" {
			c.runOn(t, "ctl", r.user, "bash", "-euc", "cd /shared/home/alice/"+dirs[name]+"; "+r.replace).mustSucceed(t)
		}
		c.runScript(t, "touch ~/go."+jobs[name])
		all = append(all, jobs[name])
	}
	c.restartJob(t, strings.Join(all, ","), "")
	// In turn, not in parallel: slurmctld forgets an ended job after five minutes, and a parallel test may have to wait
	// longer.
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			r, job := replacements[name], jobs[name]
			if r.want == "" {
				c.isHeld(t, job, r.held...)
				return
			}
			c.waitForEnd(t, job)
			if got, want := c.jobLog(job), "ready\n"+r.want; got != want {
				t.Errorf("log:\n%s\nwant:\n%s\ncomment %s", got, want, c.showColumn(t, job, "Comment"))
			}
		})
	}
	t.Run("swapped", func(t *testing.T) { c.swapWithLink(t, swapped) })
	c.secretsUntouched(t)
}

// readsWhenAsked is a job that prints the content of its open file for each new file question.N.
const readsWhenAsked = `python3 -c 'import os, time
f = os.open("key", os.O_RDONLY); print("ready", flush=True)
for n in range(1, 4):
    while not os.path.exists("question.%d" % n): time.sleep(0.1)
    print(n, os.pread(f, 6, 0).decode().strip(), flush=True)'`

// exchanges is a program that exchanges a file and a link as fast as it can.
const exchanges = `import ctypes, os
os.symlink("/shared/root/key", "link")
libc = ctypes.CDLL(None)
while not os.path.exists("stop"):
    for n in range(1000): assert libc.renameat2(-100, b"key", -100, b"link", 2) == 0 # RENAME_EXCHANGE`

// swapWithLink has the file of a queued job exchanged with a link to root's while the job is restored, three times.
func (c protected) swapWithLink(t *testing.T, job string) {
	t.Helper()
	for n := 1; n <= 3; n++ {
		c.isQueued(t, job)
		c.runScript(t, "cd ~/swapped; rm -f stop; nohup python3 -c '"+exchanges+"' </dev/null >swaps 2>&1 & echo $! > ~/swapped/pid")
		c.runScript(t, fmt.Sprintf("touch ~/swapped/question.%d", n))
		c.restartJob(t, job, "")
		held := false
		answered := func() (bool, string) {
			log, comment := c.jobLog(job), c.showColumn(t, job, "Comment")
			held = strings.Contains(comment, "held: ")
			return strings.Contains(log, fmt.Sprintf("\n%d mine", n)), fmt.Sprintf("job %s: comment %q, log:\n%s", job, comment, log)
		}
		waitFor(t, 120*time.Second, func() (bool, string) {
			ok, said := answered()
			return ok || held, said
		})
		t.Logf("restore %d: comment %q", n, c.showColumn(t, job, "Comment"))
		if said := c.runScript(t, "cd ~/swapped; touch stop; tail --pid=$(cat pid) -f /dev/null; cat swaps; if [ -L key ]; then mv -T link key; else rm link; fi"); said != "" {
			t.Errorf("exchanging: %s", said)
		}
		if held { // the exchange has ended, and the file is in its place again
			c.restartJob(t, job, "")
			waitFor(t, 120*time.Second, answered)
		}
		if n < 3 {
			c.runAsRoot(t, "scontrol requeuehold "+job)
		}
	}
	c.waitForEnd(t, job)
	if got, want := c.jobLog(job), "ready\n1 mine\n2 mine\n3 mine"; got != want {
		t.Errorf("log:\n%s\nwant:\n%s", got, want)
	}
}
