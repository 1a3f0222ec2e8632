// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// slurmLine matches the lines that slurmstepd writes into the log of a job that is killed, also in the middle of the
// program's own line. A killed job's log may have no other lines beyond the undisturbed log.
var slurmLine = regexp.MustCompile(`(?m)(?:slurmstepd(?:-\w+)?: |\[[0-9T:.-]+\] )error: \*\*\* (?:JOB|STEP) .* \*\*\*\n|^srun: (?:Job step aborted: Waiting up to \d+ seconds for job step to finish\.|got SIGCONT|forcing job termination)\n`)

// ourLine matches the line that proxyd writes into the log of a job that loses a node: the run's last work was not
// captured.
var ourLine = regexp.MustCompile(`(?m)^singularity: the job ends without a checkpoint \(requeue\): .*\n`)

// A job's log, or an array element's; a step's, where a program gives its steps logs of their
// own. All other files are the program's results.
var (
	jobLog  = regexp.MustCompile(`^log(\.\d+)?$`)
	stepLog = regexp.MustCompile(`^log\.\d+\.\d+$`)
)

// rewind says how far a log may go back.
type rewind int

const (
	never     rewind = iota
	notToZero        // not before its first line: that would be a job started from scratch
	anywhere         // to a checkpoint from before its first line: a step that began later begins again
)

// sameLog reports how got differs from want, "" if there is no difference. got may repeat lines once: a job that fell
// back to its last checkpoint writes the lines again that the job wrote after the checkpoint.
func sameLog(want, got []byte, back rewind) string {
	got = slurmLine.ReplaceAll(got, nil)
	if back != never {
		got = ourLine.ReplaceAll(got, nil)
	}
	if again := len(got) - len(want); back != never && again > 0 {
		// got is want[:a] and then want[a-again:], for some a.
		first := 0
		if back == notToZero {
			first = bytes.IndexByte(want, '\n') + 1
		}
		a := commonPrefix(want, got)
		if a >= len(got)-commonSuffix(want, got) && a-again >= first {
			return ""
		}
	}
	return firstDifference(want, got)
}

// ranAfterItsEnd tells whether a job was run again after an undisturbed end: Slurm was told so a moment too late.
// said are sacct's lines of all runs, and want the undisturbed outcomes, by the names of jobs or of an array's elements.
func ranAfterItsEnd(said string, want map[string]string) bool {
	last := map[string]string{}
	for line := range strings.Lines(said) {
		name, end, _ := strings.Cut(strings.TrimSpace(line), "|")
		if before, again := last[name]; again && before == want[name] {
			return true
		}
		last[name] = strings.Replace(end, "|", " ", 1)
	}
	return false
}

var (
	jobOf     = regexp.MustCompile(` job=(\d+)(?: |$)`)
	messageOf = regexp.MustCompile(` msg=(?:"([^"]*)"|(\S+))`)
	statusOf  = regexp.MustCompile(` status="([^"]*)"`)
)

// beganAnew tells whether a job's batch script came to its undisturbed end while Slurm requeued the job, so that
// the next run began at the script's first line, as the rule is (docs/use.md, "Jobs that requeue themselves"). log are the
// lines of all proxyd, by time. A script that was told to end and one that ended otherwise are not excused, nor is a next
// run that resumed.
func beganAnew(log []string, job, outcome string) bool {
	var exit, signal int
	if _, err := fmt.Sscanf(outcome[strings.LastIndexByte(outcome, ' ')+1:], "%d:%d", &exit, &signal); err != nil {
		return false
	}
	want := fmt.Sprintf("exit code %d", exit)
	if signal > 0 {
		want = "signal " + unix.SignalName(syscall.Signal(signal))
	}
	var ended, told bool // of a run: its script came to its end, Slurm's SIGTERM was handed on
	for _, line := range log {
		line = strings.TrimSpace(line)
		if m := jobOf.FindStringSubmatch(line); m == nil || m[1] != job {
			continue
		}
		m := messageOf.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		switch message := m[1] + m[2]; {
		case message == "SIGTERM from Slurm":
			told = true
		case message == "the batch script had ended":
			told = false
		case message == "program ended" && strings.Contains(line+" ", " program=batch "):
			status := statusOf.FindStringSubmatch(line)
			ended = status != nil && status[1] == want
		// Not "program started": a script that is quicker than proxyd's look at its capsule has no such line.
		case message == "task placed" && strings.Contains(line, " step=batch "):
			if ended && !told && strings.Contains(line, " mode=fresh ") {
				return true
			}
			ended, told = false, false
		}
	}
	return false
}

// firstDifference names the first line that differs, "" if none does.
func firstDifference(want, got []byte) string {
	if bytes.Equal(want, got) {
		return ""
	}
	at := commonPrefix(want, got)
	line := bytes.Count(want[:at], []byte("\n")) + 1
	return fmt.Sprintf("line %d: want %q, got %q", line, lineAt(want, at), lineAt(got, at))
}

func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func commonSuffix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// shownLength is how much of a line is shown: enough for the error of a failed checkpoint.
const shownLength = 400

// lineAt is the line around an offset, shortened for a person.
func lineAt(b []byte, at int) string {
	from := bytes.LastIndexByte(b[:at], '\n') + 1
	line, _, _ := bytes.Cut(b[from:], []byte("\n"))
	if len(line) > shownLength {
		line = append(line[:shownLength:shownLength], "…"...)
	}
	return string(line)
}

// readEntry returns the properties of a file that are compared, those that a program can see again: its type and mode,
// and its content, or the target of a link.
func readEntry(root, rel string) (mode string, content []byte, err error) {
	path := filepath.Join(root, rel)
	fi, err := os.Lstat(path)
	if err != nil {
		return "", nil, err
	}
	switch fi.Mode().Type() {
	case 0:
		content, err = os.ReadFile(path)
	case fs.ModeSymlink:
		var to string
		to, err = os.Readlink(path)
		content = []byte(to)
	}
	return fi.Mode().String(), content, err
}

// sameFolder returns the first few differences between two result folders, byte by
// byte. back says how far the job's logs may go back: the job may have fallen back to a checkpoint once.
func sameFolder(want, got string, back rewind) ([]string, error) {
	names := map[string]int{} // 1: in want, 2: in got
	for side, root := range []string{want, got} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if rel, e := filepath.Rel(root, path); err == nil && e == nil && rel != "." {
				names[rel] |= 1 << side
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var found []string
	for _, rel := range slices.Sorted(maps.Keys(names)) {
		switch names[rel] {
		case 1:
			found = append(found, rel+" is missing")
			continue
		case 2:
			found = append(found, rel+" should not be there")
			continue
		}
		d, err := sameEntry(want, got, rel, back)
		if err != nil {
			return nil, err
		}
		if d != "" {
			found = append(found, rel+": "+d)
		}
	}
	return found[:min(len(found), 4)], nil
}

func sameEntry(want, got, rel string, back rewind) (string, error) {
	wantMode, wantContent, err := readEntry(want, rel)
	if err != nil {
		return "", err
	}
	gotMode, gotContent, err := readEntry(got, rel)
	switch {
	case err != nil:
		return "", err
	case wantMode != gotMode:
		return "want " + wantMode + ", got " + gotMode, nil
	case stepLog.MatchString(rel) && back != never:
		return sameLog(wantContent, gotContent, anywhere), nil
	case jobLog.MatchString(rel), stepLog.MatchString(rel):
		return sameLog(wantContent, gotContent, back), nil
	}
	return firstDifference(wantContent, gotContent), nil
}

func TestSameLog(t *testing.T) {
	const want = "start\none\ntwo\nthree\n"
	kill := "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO JOB REQUEUE ***\n"
	for name, c := range map[string]struct {
		got        string
		exact, rew bool
	}{
		"same":                     {want, true, true},
		"a line of slurmstepd":     {"start\none\n" + kill + "two\nthree\n", true, true},
		"in the middle of a line":  {"start\non" + kill + "e\ntwo\nthree\n", true, true},
		"newer slurmstepd":         {"start\n[2026-01-01T00:00:00.123] error: *** STEP 5.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE to SIGNAL Terminated ***\none\ntwo\nthree\n", true, true},
		"one line twice":           {"start\none\none\ntwo\nthree\n", false, true},
		"back by two lines":        {"start\none\ntwo\none\ntwo\nthree\n", false, true},
		"cut line, then back":      {"start\none\ntwo\none\ntw" + "one\ntwo\nthree\n", false, false}, // twice back
		"died in a line":           {"start\none\ntw" + kill + "one\ntwo\nthree\n", false, true},
		"started anew":             {"start\none\nstart\none\ntwo\nthree\n", false, false},
		"a line lost":              {"start\none\nthree\n", false, false},
		"another line":             {"start\none\nTWO\nthree\n", false, false},
		"ended early":              {"start\none\n", false, false},
		"a message of our own":     {"start\none\nsingularity: restored\ntwo\nthree\n", false, false},
		"everything said again":    {want + want, false, false},
		"a checkpoint that failed": {"start\none\nsingularity: the job ends without a checkpoint (requeue): node n2: it is away\none\ntwo\nthree\n", false, true},
		"all but the start again":  {want + "one\ntwo\nthree\n", false, true},
		"the end is missing twice": {"start\none\ntwo\none\n", false, false},
	} {
		if d := sameLog([]byte(want), []byte(c.got), never); (d == "") != c.exact {
			t.Errorf("%s: the logs differ by %q, which is not expected", name, d)
		}
		if d := sameLog([]byte(want), []byte(c.got), notToZero); (d == "") != c.rew {
			t.Errorf("%s, with a rewind: %q", name, d)
		}
	}
	if d := sameLog([]byte(want), []byte("start\none\n"+want), anywhere); d != "" {
		t.Errorf("a step begun again: %q", d)
	}
	if d := sameLog([]byte(want), []byte("start\none\nTWO\nthree\n"), notToZero); d != `line 3: want "two", got "TWO"` {
		t.Errorf("a log with another third line, want that line named: %v", d)
	}
}

func TestRanAfterItsEnd(t *testing.T) {
	want := map[string]string{"5": "COMPLETED 0:0", "7_2": "FAILED 6:0"}
	for name, c := range map[string]struct {
		said string
		want bool
	}{
		"once":                   {"5|COMPLETED|0:0\n", false},
		"requeued while it ran":  {"5|REQUEUED|0:0\n5|COMPLETED|0:0\n", false},
		"requeued after its end": {"5|COMPLETED|0:0\n5|COMPLETED|0:0\n", true},
		"a third run":            {"5|PREEMPTED|0:0\n5|COMPLETED|0:0\n5|COMPLETED|0:0\n", true},
		"failed, and again":      {"5|FAILED|1:0\n5|COMPLETED|0:0\n", false},
		"an element of an array": {"7_1|COMPLETED|0:0\n7_2|FAILED|6:0\n7_2|FAILED|6:0\n", true},
		"its own other outcome":  {"7_2|COMPLETED|0:0\n7_2|FAILED|6:0\n", false},
		"elements one by one":    {"7_1|COMPLETED|0:0\n7_2|FAILED|6:0\n", false},
		"an outcome not known":   {"9|COMPLETED|0:0\n9|COMPLETED|0:0\n", false},
	} {
		if got := ranAfterItsEnd(c.said, want); got != c.want {
			t.Errorf("%s: ranAfterItsEnd = %v", name, got)
		}
	}
}

func TestBeganAnew(t *testing.T) {
	const (
		started  = `time=2026-01-01T00:00:00.000Z level=INFO msg="task placed" job=12 step=batch task=0 mode=fresh name=batch reason=""`
		restored = `time=2026-01-01T00:00:00.000Z level=INFO msg="task placed" job=12 step=batch task=0 mode=restore name=batch reason=""`
		ofStep   = `time=2026-01-01T00:00:00.000Z level=INFO msg="task placed" job=12 step=5 task=0 mode=fresh name=s5.0 reason=""`
		step     = `time=2026-01-01T00:00:00.000Z level=INFO msg="program ended" job=12 capsule=0 program=5.0.0 status="exit code 0"`
		ended    = `time=2026-01-01T00:00:00.000Z level=INFO msg="program ended" job=12 capsule=0 program=batch status="exit code 0"`
		failed   = `time=2026-01-01T00:00:00.000Z level=INFO msg="program ended" job=12 capsule=0 program=batch status="exit code 1"`
		killed   = `time=2026-01-01T00:00:00.000Z level=INFO msg="program ended" job=12 capsule=0 program=batch status="signal SIGKILL"`
		told     = `time=2026-01-01T00:00:00.000Z level=INFO msg="SIGTERM from Slurm" job=12 verdict=requeue error=<nil>`
		hadEnded = `time=2026-01-01T00:00:00.000Z level=INFO msg="the batch script had ended" job=12`
	)
	for name, c := range map[string]struct {
		log  []string
		want bool
	}{
		"undisturbed":                  {[]string{started, ofStep, step, ended}, false},
		"captured":                     {[]string{started, told, restored, ended}, false},
		"captured and killed":          {[]string{started, told, killed, restored, ended}, false},
		"ended, and again":             {[]string{started, ended, started, ended}, true},
		"and the second one runs":      {[]string{started, ended, started}, true},
		"told when it had ended":       {[]string{started, ended, told, hadEnded, started, ended}, true},
		"ended while it was told":      {[]string{started, told, ended, hadEnded, started, ended}, true},
		"ended because it was told":    {[]string{started, told, ended, started, ended}, false},
		"ended otherwise":              {[]string{started, failed, started, ended}, false},
		"only a step ended":            {[]string{started, ofStep, step, started, ended}, false},
		"a step began after the end":   {[]string{started, ended, ofStep, step}, false},
		"resumed after its end":        {[]string{started, ended, restored, ended}, false},
		"resumed, then ended and anew": {[]string{started, told, restored, ended, started, ended}, true},
		"anew, then resumed":           {[]string{started, ended, started, told, killed, restored, ended}, true},
	} {
		if got := beganAnew(c.log, "12", "COMPLETED 0:0"); got != c.want {
			t.Errorf("%s: beganAnew = %v", name, got)
		}
		if beganAnew(c.log, "1", "COMPLETED 0:0") || beganAnew(c.log, "12", "FAILED 6:0") || beganAnew(c.log, "12", "") {
			t.Errorf("%s: of another job, or with another outcome", name)
		}
	}
	if !beganAnew([]string{started, killed, started, killed}, "12", "FAILED 0:9") {
		t.Error("beganAnew is false for a script that is killed by itself in both runs, want true")
	}
	if !beganAnew([]string{started, failed, started, failed}, "12", "FAILED 1:0") {
		t.Error("beganAnew is false for a script that fails by itself in both runs, want true")
	}
}

func TestSameFolder(t *testing.T) {
	folder := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			if to, ok := strings.CutPrefix(text, "->"); ok {
				if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	want := map[string]string{"log": "start\na\nb\n", "sub/x": "start\na\nb\n", "link": "->sub/x"}
	for name, c := range map[string]struct {
		change map[string]string
		back   rewind
		want   string
	}{
		"same":               {nil, never, ""},
		"contents":           {map[string]string{"sub/x": "start\nA\nb\n"}, never, `sub/x: line 2: want "a", got "A"`},
		"link":               {map[string]string{"link": "->other"}, never, `link: line 1: want "sub/x", got "other"`},
		"more":               {map[string]string{"core": ""}, never, "core should not be there"},
		"log back":           {map[string]string{"log": "start\na\na\nb\n"}, notToZero, ""},
		"log back, unasked":  {map[string]string{"log": "start\na\na\nb\n"}, never, `log: line 3: want "b", got "a"`},
		"a file is no log":   {map[string]string{"sub/x": "start\na\na\nb\n"}, notToZero, `sub/x: line 3: want "b", got "a"`},
		"a kill in a result": {map[string]string{"sub/x": "start\na\nslurmstepd: error: *** JOB 1 x ***\nb\n"}, notToZero, `sub/x: line 3: want "b", got "slurmstepd: error: *** JOB 1 x ***"`},
		"log back to zero":   {map[string]string{"log": "start\nstart\na\nb\n"}, notToZero, `log: line 2: want "a", got "start"`},
		"captured before it": {map[string]string{"log": "start\nstart\na\nb\n"}, anywhere, ""},
	} {
		files := map[string]string{}
		for k, v := range want {
			files[k] = v
		}
		for k, v := range c.change {
			files[k] = v
		}
		got, err := sameFolder(folder(want), folder(files), c.back)
		if err != nil || strings.Join(got, "; ") != c.want {
			t.Errorf("%s: sameFolder = %q, %v", name, got, err)
		}
	}
	if got, _ := sameFolder(folder(want), folder(map[string]string{"log": want["log"], "link": want["link"]}), never); len(got) != 2 {
		t.Errorf("sameFolder of a folder without two files = %q, want two differences", got)
	}
}
