// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startShell serves a shell, and returns the record and the channel of its exit code.
func startShell(t *testing.T) (Record, <-chan int) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	ended := make(chan int, 1)
	go func() {
		code, err := Serve("7", []string{"/bin/sh"})
		if err != nil {
			t.Error(err)
		}
		ended <- code
	}()
	for {
		r, err := Load("7")
		if err == nil {
			return r, ended
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		select {
		case <-ended:
			t.Fatal("the session ended before it began")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// attached is a Join with keys that the test types.
type attached struct {
	t     *testing.T
	typed *os.File
	end   context.CancelFunc
	shown chan string // pieces, closed at the end
	ended chan error
	all   string
}

func attachTo(t *testing.T, r Record) *attached {
	t.Helper()
	in, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	shown, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	a := &attached{t: t, typed: typed, end: end, shown: make(chan string, 1000), ended: make(chan error, 1)}
	go func() {
		a.ended <- Join(ctx, r, in, out)
		out.Close()
	}()
	go func() {
		defer close(a.shown)
		buf := make([]byte, 1000)
		for {
			n, err := shown.Read(buf)
			if err != nil {
				return
			}
			a.shown <- string(buf[:n])
		}
	}()
	return a
}

// waitForText waits until the terminal has shown a text.
func (a *attached) waitForText(want string) {
	a.t.Helper()
	deadline := time.After(time.Minute)
	for !strings.Contains(a.all, want) {
		select {
		case more, ok := <-a.shown:
			if !ok {
				a.t.Fatalf("the connection ended without %q:\n%s", want, a.all)
			}
			a.all += more
		case <-deadline:
			a.t.Fatalf("the terminal has not shown %q, but\n%s", want, a.all)
		}
	}
}

func (a *attached) typeText(text string) {
	a.t.Helper()
	if _, err := io.WriteString(a.typed, text); err != nil {
		a.t.Fatal(err)
	}
}

// TestAttach: a person that attaches again finds the same shell and its last output; the shell's end ends the session
// with its exit code, and the record goes. The note stays: Slurm may requeue the job.
func TestAttach(t *testing.T) {
	r, ended := startShell(t)
	first := attachTo(t, r)
	first.typeText("keep=41; echo is $((keep))\n")
	first.waitForText("is 41")
	first.typeText("\x1d")
	if err := <-first.ended; err != nil {
		t.Errorf("Join after the detach key: %v, want nil", err)
	}
	second, third := attachTo(t, r), attachTo(t, r)
	second.waitForText("is 41")
	third.waitForText("is 41")
	second.typeText("echo again $((keep + 1))\n")
	second.waitForText("again 42")
	third.waitForText("again 42")
	if err := NoteSubmission("7"); err != nil {
		t.Fatal(err)
	}
	second.typeText("exit 3\n")
	if err := <-second.ended; !errors.Is(err, ErrOver) {
		t.Errorf("at the shell's end: %v", err)
	}
	if code := <-ended; code != 3 {
		t.Errorf("exit code %d", code)
	}
	if _, err := Load("7"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record: %v", err)
	}
	if !IsNoted("7") {
		t.Error("the note is gone: a session that Slurm requeues would not be listed")
	}
}

// TestAttachCut: a person's terminal lets go as soon as Slurm ends its step, though the session does not answer: its
// network is locked during the capture.
func TestAttachCut(t *testing.T) {
	r, ended := startShell(t)
	a, other := attachTo(t, r), attachTo(t, r)
	a.typeText("echo is $((40 + 1))\n")
	a.waitForText("is 41")
	a.end()
	select {
	case err := <-a.ended:
		if !errors.Is(err, ErrOver) {
			t.Errorf("Join after its step was ended: %v, want ErrOver", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the terminal is still attached")
	}
	other.typeText("exit 0\n")
	<-ended
}

// TestStranger: without the token the session sends no answer and takes no keys.
func TestStranger(t *testing.T) {
	r, ended := startShell(t)
	for _, said := range []string{strings.Repeat("0", tokenSize) + "\n\x00\x00\x08exit 9\r\n", "\n", r.Token[:tokenSize-1] + "x\n"} {
		c, err := net.Dial("tcp4", r.Address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(c, said)
		if len(said) <= tokenSize { // the rest is waited for
			c.(*net.TCPConn).CloseWrite()
		}
		got, _ := io.ReadAll(c)
		if err != nil || len(got) > 0 {
			t.Errorf("to %q Serve answered %q, %v, want no answer", said, got, err)
		}
		c.Close()
	}
	a := attachTo(t, r)
	a.typeText("exit 4\n")
	if code := <-ended; code != 4 {
		t.Errorf("exit code %d", code)
	}
}

// TestSilentStrangers: connections that do not show the token hold no places of people.
func TestSilentStrangers(t *testing.T) {
	r, ended := startShell(t)
	for range maxStrangers + maxClients {
		c, err := net.Dial("tcp4", r.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	a := attachTo(t, r)
	a.typeText("echo is $((40 + 1))\n")
	a.waitForText("is 41")
	a.typeText("exit 5\n")
	if code := <-ended; code != 5 {
		t.Errorf("exit code %d, want 5", code)
	}
}

// FuzzFrame: for all bytes of a client, a frame that is read and written again is as in these bytes.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{0, 0, 1, 'x'})
	f.Add([]byte{1, 0, 4, 0, 24, 0, 80})
	f.Fuzz(func(t *testing.T, b []byte) {
		var buf [maxFrame]byte
		kind, got, err := readFrame(bytes.NewReader(b), &buf)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := writeFrame(&again, kind, got); err != nil || !bytes.HasPrefix(b, again.Bytes()) {
			t.Errorf("writeFrame of kind %d, %q: %v", kind, got, err)
		}
	})
}

// TestNote: a session is in the list from its submission on, once, until the session is removed.
func TestNote(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.MkdirAll(home+"/.singularity-slurm/sessions", 0o700); err != nil {
		t.Fatal(err)
	}
	check := func(want ...string) {
		t.Helper()
		if jobs, err := Jobs(); err != nil || strings.Join(jobs, " ") != strings.Join(want, " ") {
			t.Errorf("jobs %v, %v, want %v", jobs, err, want)
		}
	}
	for _, job := range []string{"12", "7"} {
		if err := NoteSubmission(job); err != nil || !IsNoted(job) {
			t.Fatalf("NoteSubmission of job %s: %v, or it is not noted", job, err)
		}
	}
	check("7", "12")
	if err := (Record{Address: "a:1", Token: strings.Repeat("0", tokenSize)}).Save("12"); err != nil {
		t.Fatal(err)
	}
	check("7", "12")
	for _, job := range []string{"12", "7", "7"} {
		if err := Remove(job); err != nil || IsNoted(job) {
			t.Errorf("Remove of job %s: %v, or it is noted still", job, err)
		}
	}
	check()
	if NoteSubmission("../x") == nil || IsNoted("../x") {
		t.Error("NoteSubmission accepted ../x as a job")
	}
}

// TestRunOnTerminal: a command has the keys and the size of the person's terminal, and slurmstepd's notice of the
// step's end is not shown.
func TestRunOnTerminal(t *testing.T) {
	master, slave, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}); err != nil {
		t.Fatal(err)
	}
	if _, err := master.WriteString("key\rlater\r"); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	const said = "[2026-11-23T10:12:46.196] error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-23T10:12:46 DUE TO JOB REQUEUE ***"
	cmd := exec.Command("/bin/sh", "-c", "stty size; read x; printf '$ %s\\n' '"+said+"'; echo got $x; exit 7")
	err = RunOnTerminal(cmd, slave, &shown, nil)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("the command's end: %v", err)
	}
	if got := strings.ReplaceAll(shown.String(), "\r", ""); !strings.Contains(got, "33 77\n") || !strings.Contains(got, "$ got key\n") {
		t.Errorf("the terminal has shown %q", got)
	}
}

// TestCopyShown: a cancel notice is not shown, in however many pieces a terminal passes it on, and all else is.
func TestCopyShown(t *testing.T) {
	const notice = "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-23T10:12:46 DUE TO JOB REQUEUE ***"
	long := notice[:len(notice)-4] + strings.Repeat("x", 500)
	for name, c := range map[string]struct {
		pieces []string
		want   string
	}{
		"at once":          {[]string{"$ " + notice + "\r\ngot"}, "$ got"},
		"its end later":    {[]string{"$ " + notice, "\r\n", "got"}, "$ got"},
		"before the feed":  {[]string{"$ " + notice + "\r", "\ngot"}, "$ got"},
		"in three":         {[]string{"$ " + notice[:40], notice[40:60], notice[60:] + "\ngot"}, "$ got"},
		"the last":         {[]string{"$ " + notice}, "$ " + notice},
		"another line":     {[]string{notice[:60], "\r\ngot"}, notice[:60] + "\r\ngot"},
		"too long for one": {[]string{long, "\r\n"}, long + "\r\n"},
		"a prompt":         {[]string{"[2026] $ "}, "[2026] $ "},
	} {
		var readers []io.Reader
		for _, piece := range c.pieces {
			readers = append(readers, strings.NewReader(piece))
		}
		var shown bytes.Buffer
		if copyShown(&shown, io.MultiReader(readers...)); shown.String() != c.want {
			t.Errorf("%s: shown %q, want %q", name, shown.String(), c.want)
		}
	}
}

// TestAwaitDetach: the detach key ends a wait at once, keys typed before it or without it are kept, and the terminal
// is as before.
func TestAwaitDetach(t *testing.T) {
	for name, c := range map[string]struct {
		keys, typed string
		detach      bool
	}{
		"detach key":        {"ls\r\x1d", "ls\r", true},
		"without":           {"ls\r", "ls\r", false},
		"nothing was typed": {"", "", false},
	} {
		master, slave, err := openTerminal()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		defer slave.Close()
		before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		patience := 300 * time.Millisecond // without the detach key all of it passes
		if c.detach {
			patience = time.Minute
		}
		ctx, stop := context.WithTimeout(t.Context(), patience)
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			for { // keys that come before the mode is changed would be read as a line
				mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
				if err != nil || mode.Lflag&unix.ICANON == 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			_, _ = master.WriteString(c.keys)
		}()
		typed, detach, err := AwaitDetach(ctx, slave)
		<-wrote
		if err != nil || string(typed) != c.typed || detach != c.detach {
			t.Errorf("%s: typed %q, detach %v, %v", name, typed, detach, err)
		}
		if over := ctx.Err() != nil; over == c.detach {
			t.Errorf("%s: the wait is over: %v", name, over)
		}
		if after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS); err != nil || *after != *before {
			t.Errorf("%s: the mode afterwards: %+v, %v", name, after, err)
		}
		stop()
	}
}

// TestLogEnd: the end of a log has why a session could not begin, and not Slurm's lines on each end of a job.
func TestLogEnd(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.MkdirAll(home+"/.singularity-slurm/sessions", 0o700); err != nil {
		t.Fatal(err)
	}
	const slurms = "[2026-11-26T15:41:05.399] error: *** JOB 4 ON n1 CANCELLED AT 2026-11-26T15:41:05 DUE TO JOB REQUEUE ***"
	for _, c := range []struct{ log, want string }{
		{"", ""},
		{slurms, ""},
		{slurms + "\n" + slurms + "\n", ""},
		{"singctl: no nonsense\n" + slurms + "\n", "singctl: no nonsense"},
		{strings.Repeat("a line of a log\n", 1000) + "two\nthree\n", "two three"},
	} {
		if err := os.WriteFile(home+"/.singularity-slurm/sessions/4.log", []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(LogEnd("4", 2), " "); got != c.want {
			t.Errorf("LogEnd of %.80q = %q, want %q", c.log, got, c.want)
		}
	}
	if got := LogEnd("5", 2); got != nil {
		t.Errorf("LogEnd without a log = %q, want nil", got)
	}
}
