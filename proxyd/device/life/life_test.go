// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
)

// TestStart: the process has the identity and limits of doc.go, and the job's processes can use the server.
func TestStart(t *testing.T) {
	w := makeWorld(t)
	spec := specOf(t, w)
	spec.Cgroup = makeCgroup(t)
	s := startServer(t, spec)
	proc := fmt.Sprintf("/proc/%d/", s.PID())
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Uid:\t12345\t12345\t12345\t12345\n", "Gid:\t12346\t12346\t12346\t12346\n", "Groups:\t12356 12357 \n", "Umask:\t0077\n",
		"CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n", "NoNewPrivs:\t1\n",
	} {
		if !strings.Contains(string(status), want) {
			t.Errorf("the process's status has no %q:\n%s", want, status)
		}
	}
	if b, err := os.ReadFile(proc + "oom_score_adj"); err != nil || string(b) != "7\n" {
		t.Errorf("oom_score_adj = %q, %v", b, err)
	}
	if b, err := os.ReadFile(proc + "environ"); err != nil || len(b) != 0 {
		t.Errorf("environment %q, %v", b, err)
	}
	if cwd, err := os.Readlink(proc + "cwd"); err != nil || cwd != "/" {
		t.Errorf("the working directory is %q, %v", cwd, err)
	}
	if sid, err := unix.Getsid(s.PID()); err != nil || sid != s.PID() {
		t.Errorf("session %d, %v", sid, err)
	}
	if b, err := os.ReadFile(proc + "cgroup"); spec.Cgroup != "" && (err != nil || !strings.Contains(string(b), "/"+filepath.Base(spec.Cgroup)+"\n")) {
		t.Errorf("the process's cgroups = %s, %v", b, err)
	}
	for dir, want := range map[string]os.FileMode{"": 0o700, socketDir: 0o755, controlName: 0o600, socketDir + "/" + socketName: 0o600, recordName: 0o600, logName: 0o600} {
		if st, err := os.Stat(filepath.Join(s.Dir(), dir)); err != nil || st.Mode().Perm() != want {
			t.Errorf("mode of %q = %v, %v", dir, st.Mode(), err)
		}
	}

	p := inCapsule(t, w, s, "testdata/steps.c")
	p.readLine(t)
	if got := p.nextStep(t); got != "32896" {
		t.Errorf("the program's first step prints %q, want 32896", got)
	}
	st, err := s.Status(testDeadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Devices) != 2 || st.Devices[0].Memory != 4<<30 || st.Devices[0].Used == 0 || st.Version == "" || st.Stopped {
		t.Errorf("status = %+v, want two used devices of 4 GiB, not stopped", st)
	}
	if len(st.Processes) != 1 || st.Processes[0].PID != p.cmd.Process.Pid || st.Processes[0].Capsule != 1 {
		t.Errorf("processes of the server = %+v, want PID %d", st.Processes, p.cmd.Process.Pid)
	}
	if log := logOf(s); strings.Contains(log, "cannot be read") { // the server must be able to read their memory
		t.Errorf("the server could not read a process's memory; its log:\n%s", log)
	}
	if _, err := Start(testDeadline(t), spec); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
}

// TestDaemonKilled: a server goes on when its daemon is killed. The next daemon finds the server, saves the
// job and has another server take over.
func TestDaemonKilled(t *testing.T) {
	w := makeWorld(t)
	ctx, spec := testDeadline(t), specOf(t, w)
	spec.Cgroup = makeCgroup(t)
	d := startDaemon(t, spec, "")
	first, err := Find(ctx, spec.Dir)
	if err != nil || first == nil {
		t.Fatalf("Find while the daemon runs = %v, %v", first, err)
	}
	p := inCapsule(t, w, first, "testdata/steps.c")
	p.readLine(t)
	first.Close()
	d.Process.Kill()
	d.Wait()
	if got := p.nextStep(t); got != "32896" {
		t.Errorf("after the daemon's death, the program's step prints %q, want 32896", got)
	}

	s, err := Find(ctx, spec.Dir)
	if err != nil || s == nil {
		t.Fatalf("Find after the daemon's death = %v, %v", s, err)
	}
	t.Cleanup(func() { endServer(t, s) })
	folder := server.Folder(t.TempDir())
	saved, err := s.Save(ctx, folder, server.SaveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := s.Status(ctx); err != nil || !st.Stopped {
		t.Errorf("after Save, status = %+v, %v, want a stopped server", st, err)
	}
	if err := s.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if got := p.nextStep(t); got != "98176" {
		t.Errorf("after Resume, the program's step prints %q, want 98176", got)
	}
	r, err := s.Save(ctx, folder, server.SaveOptions{Upon: saved.ID})
	if err != nil || len(r.Processes) != 1 {
		t.Fatalf("the second Save = %+v, %v, want one process", r, err)
	}
	with, err := server.OpenHostMappings(p.cmd.Process.Pid, r.Processes[0])
	if err != nil {
		t.Fatal(err)
	}
	defer with[0].Close()
	endServer(t, s)
	<-s.Died()
	if !isNotThere(spec.Dir) || spec.Cgroup != "" && !isNotThere(spec.Cgroup) {
		t.Errorf("the server's folder %s or its cgroup %q is still there", spec.Dir, spec.Cgroup)
	}
	if _, err := s.Status(ctx); !errors.Is(err, ErrDied) {
		t.Error(err)
	}

	// The new server uses the same folder: the capsule has the folder mounted, and the process has the ring
	// of the first server.
	next, err := Restore(ctx, spec, folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endServer(t, next) })
	if st, err := next.Status(ctx); err != nil || !st.Stopped || len(st.Processes) != 1 || !st.Processes[0].Absent {
		t.Errorf("after Restore, status = %+v, %v, want a stopped server with one absent process", st, err)
	}
	if err := next.Adopt(ctx, r.Processes[0].ID, p.cmd.Process.Pid, with); err != nil {
		t.Fatal(err)
	}
	if err := next.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if got := p.nextStep(t); got != "196096" {
		t.Errorf("in the next server, the program's step prints %q, want 196096", got)
	}
	if log := logOf(next); strings.Contains(log, "cannot be read") {
		t.Errorf("the server could not read a process's memory; its log:\n%s", log)
	}
}

// TestKilledAtEachStep: at whichever step of a start a daemon is killed, Find finds all that the steps have made, and
// End removes it. The same holds where there are no cgroups.
func TestKilledAtEachStep(t *testing.T) {
	w := makeWorld(t)
	groups := []string{""}
	if g := makeCgroup(t); g != "" {
		groups = append(groups, g)
	}
	for _, group := range groups {
		letGo := false
		for _, step := range steps {
			letGo = letGo || step.name == "gate"
			t.Run(fmt.Sprintf("%s with group %q", step.name, filepath.Base(group)), func(t *testing.T) {
				spec := specOf(t, w)
				spec.Cgroup = group
				killedAt(t, spec, step.name, letGo)
			})
		}
	}
}

// killedAt kills a daemon after a step of Start. letGo says that the gate is open by then, so that a server
// runs.
func killedAt(t *testing.T, spec Spec, step string, letGo bool) {
	t.Helper()
	ctx := testDeadline(t)
	startDaemon(t, spec, step).Wait()
	s, err := Find(ctx, spec.Dir)
	if err != nil || s == nil {
		t.Fatalf("Find after the daemon's death = %v, %v", s, err)
	}
	if letGo {
		if _, err := s.Status(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := s.End(ctx); err != nil {
		t.Error(err)
	}
	if err := s.End(ctx); err != nil {
		t.Error("End again: ", err)
	}
	if !isNotThere(spec.Dir) || spec.Cgroup != "" && !isNotThere(spec.Cgroup) {
		t.Errorf("the server's folder %s or its cgroup %q is still there", spec.Dir, spec.Cgroup)
	}
	if s, err := Find(ctx, spec.Dir); s != nil || err != nil {
		t.Errorf("Find after End = %v, %v, want nil, nil", s, err)
	}
	// When its daemon died before it recorded the server, a server exits without help.
	for _, pid := range serversLeft(t, spec.Program) {
		waitFor(t, ctx, pid)
	}
}

// waitFor waits until a process has ended.
func waitFor(t *testing.T, ctx context.Context, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return // the process has ended
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	defer context.AfterFunc(ctx, func() { f.Close() })()
	if err := waitPidfd(f); err != nil {
		t.Errorf("process %d does not end: %v", pid, err)
	}
}

// TestEnter: a running server can be put into a cgroup, and End removes that cgroup, whichever daemon calls
// End.
func TestEnter(t *testing.T) {
	w := makeWorld(t)
	g := makeCgroup(t)
	if g == "" {
		t.Skip("SKIP: needs cgroup v2 to write to")
	}
	s := startServer(t, specOf(t, w))
	if s.Cgroup() != "" {
		t.Errorf("before Enter, Cgroup = %q", s.Cgroup())
	}
	if err := s.Enter(g); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.PID())); err != nil || !strings.Contains(string(b), "/"+filepath.Base(g)+"\n") {
		t.Errorf("after Enter, the process's cgroups = %s, %v", b, err)
	}
	again, err := Find(testDeadline(t), s.Dir())
	if err != nil || again.Cgroup() != g {
		t.Fatalf("Find after Enter = %v, %v, want a server in the cgroup", again, err)
	}
	endServer(t, again)
	if !isNotThere(g) || again.OutOfMemory() {
		t.Error("after End, the cgroup is left, or counts as out of memory")
	}
}

// TestEnterDead: Enter does not put the PID of a server that has ended into a cgroup. End would kill the
// process that has the PID by then.
func TestEnterDead(t *testing.T) {
	s := startServer(t, specOf(t, makeWorld(t)))
	if err := unix.Kill(s.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Died()
	g := filepath.Join(t.TempDir(), "group")
	if err := s.Enter(g); !errors.Is(err, ErrDied) || s.Cgroup() != "" || !isNotThere(g) {
		t.Errorf("Enter of a server that has ended = %v, with Cgroup %q", err, s.Cgroup())
	}
	endServer(t, s)
}

// TestWasKilled: OutOfMemory is true if the job was at its limit when the kernel killed the server for lack
// of memory, and false if the node was out of memory.
func TestWasKilled(t *testing.T) {
	const (
		none   = "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n"
		killed = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\noom_group_kill 0\n"
		full   = "low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\noom_group_kill 0\n"
	)
	for _, tt := range []struct {
		name             string
		server, job, sum string // server: of the server's cgroup; job: of the job's own cgroup; sum: of the job's cgroup and all cgroups below
		want             bool
	}{
		{"nothing is known", "", "", "", false},
		{"no process was killed", none, none, none, false},
		{"the job was full, and another was killed", none, full, full, false},
		{"the job was full", killed, full, full, true},
		{"the node was full", killed, none, killed, false},
		{"a step was full once", killed, none, full, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			job := t.TempDir()
			g := filepath.Join(job, "server")
			err := os.Mkdir(g, 0o755)
			for path, events := range map[string]string{
				filepath.Join(g, "memory.events"): tt.server, filepath.Join(job, "memory.events.local"): tt.job, filepath.Join(job, "memory.events"): tt.sum,
			} {
				if events != "" {
					err = errors.Join(err, os.WriteFile(path, []byte(events), 0o644))
				}
			}
			if got := group(g).wasKilledForMemory(); err != nil || got != tt.want {
				t.Errorf("wasKilledForMemory = %v, %v", got, err)
			}
		})
	}
}

// TestDies: Died is closed when a server ends, and a process that gets the same PID later is not taken for
// the server.
func TestDies(t *testing.T) {
	w := makeWorld(t)
	ctx, spec := testDeadline(t), specOf(t, w)
	s := startServer(t, spec)
	if err := unix.Kill(s.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Died()
	if _, err := s.Save(ctx, server.Folder(t.TempDir()), server.SaveOptions{}); !errors.Is(err, ErrDied) {
		t.Error(err)
	}
	rec, err := readRecord(spec.Dir)
	if err != nil {
		t.Fatal(err)
	}
	innocent := exec.Command("sleep", "1000")
	if err := innocent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		innocent.Process.Kill()
		innocent.Wait()
	}()
	rec.PID = innocent.Process.Pid // as if the kernel had given the server's PID to that process
	if err := rec.writeRecord(spec.Dir); err != nil {
		t.Fatal(err)
	}
	found, err := Find(ctx, spec.Dir)
	if err != nil || found == nil {
		t.Fatalf("Find with another process's PID in the record = %v, %v", found, err)
	}
	<-found.Died()
	endServer(t, found)
	endServer(t, s)
	if !isNotThere(spec.Dir) {
		t.Errorf("the server's folder %s is still there", spec.Dir)
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", rec.PID)); err != nil || strings.Contains(string(b), ") Z ") {
		t.Errorf("the process with the same PID was killed: %s, %v", b, err)
	}
}

// TestDoesNotStart: the error has the reason, and no process, folder or cgroup is left.
func TestDoesNotStart(t *testing.T) {
	w := makeWorld(t)
	for _, tt := range []struct {
		name string
		bad  func(*Spec)
		says string
	}{
		{"no program", func(s *Spec) { s.Program = "/nowhere/proxyd" }, "process: start /nowhere/proxyd: no such file"},
		{"no devices", func(s *Spec) { s.Count = 0 }, "proxyd: --soft 0: it is from 1 to 16"},
		{"no such order", func(s *Spec) { s.Order = []int{1, 2} }, "proxyd: --order: there is no device 2"},
		{"no cgroup", func(s *Spec) { s.Cgroup = filepath.Join(t.TempDir(), "group") }, "is no cgroup v2"},
		{"nowhere", func(s *Spec) { s.Dir = "/nowhere/server" }, "folder: mkdir /nowhere/server: no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := specOf(t, w)
			tt.bad(&spec)
			s, err := Start(testDeadline(t), spec)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Error(err)
			}
			if s != nil || !isNotThere(spec.Dir) {
				t.Errorf("after a failed Start there is a server, %v, or its folder %s", s, spec.Dir)
			}
		})
	}
}

// TestNotRestored: a restore that cannot build the saved state leaves no server.
func TestNotRestored(t *testing.T) {
	w := makeWorld(t)
	ctx, spec := testDeadline(t), specOf(t, w)
	s := startServer(t, spec)
	folder := server.Folder(t.TempDir())
	if _, err := s.Save(ctx, folder, server.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	endServer(t, s)
	spec.Memory = "2M"
	var said *server.OrderError
	if s, err := Restore(ctx, spec, folder); s != nil || !errors.As(err, &said) || !strings.Contains(said.Text, "bytes of memory, here it has 2097152") {
		t.Errorf("Restore on a device with too little memory = %v, %v", s, err)
	}
	if !isNotThere(spec.Dir) {
		t.Errorf("the server's folder %s is still there", spec.Dir)
	}
}

// TestLog: a full log has the latest lines, and stays within its limit.
func TestLog(t *testing.T) {
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l := NewLog(f)
	for i := range MaxLog / 100 * 3 {
		if _, err := fmt.Fprintf(l, "%0*d\n", 99, i); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(f.Name())
	if err != nil || len(b) > MaxLog || !strings.HasSuffix(string(b), fmt.Sprintf("%0*d\n", 99, MaxLog/100*3-1)) {
		t.Errorf("the log has %d bytes without the last line, or too many: %v", len(b), err)
	}
}
