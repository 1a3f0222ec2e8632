// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// How output travels:
//
//	task ─pipe─► slurmstepd ─TCP─► srun ─► its standard output: a file, or a pipe of sing-srun
//
// Bytes on this way are in no image of a checkpoint. Once the tasks are frozen, the bytes come out at the other end;
// Idle and StepdIdle wait until they have come out. Look at the pipes of the tasks first, then at the slurmstepd of
// each node, then at srun: bytes only move to the right.
//
// Standard input travels the other way, and is waited for in the other order, once sing-srun is frozen:
//
//	sing-srun ─pipe─► srun ─TCP─► slurmstepd ─pipe─► warden ─pipe─► task
//
// A line that a task has begun and not ended stays in slurmstepd: the line comes when the task's pipe is closed, and
// Idle does not wait for that line.

// Idle returns when all output that the step's tasks have written, and that has left the slurmstepds of their nodes,
// has come out at srun's standard output and error, and when srun has ended. The tasks must be frozen, and sing-srun
// and the readers of srun's output must not be. At the end of ctx Idle returns an error that names the last activity of
// srun that Idle saw.
func (r *Runner) Idle(ctx context.Context) error {
	err := waitUntilIdle(ctx, r.rec.Srun, r.rec.Began, inspectProcess)
	tick := time.NewTicker(firstLook)
	defer tick.Stop()
	for err == nil {
		// Messages of srun on its standard error go through the runner.
		said := r.askRunner(ctx, "drained")
		if said == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			err = said
		}
	}
	return fmt.Errorf("srun %s: %w", r.rec.Key, err)
}

// StepdIdle returns when a slurmstepd has sent on all output of its tasks that it has read, or has ended. Its tasks
// must be frozen and their pipes empty. pid is in the caller's PID namespace. At the end of ctx the error is as Idle's.
func StepdIdle(ctx context.Context, pid int) error {
	return processIdle(ctx, "slurmstepd", pid, inspectProcess)
}

// WardenIdle returns when a warden that passes on the standard input of its program waits, or has ended. The warden may
// wait for room in the program's pipe, or may have been stopped by Slurm while it waited: in both cases it holds no
// input.
func WardenIdle(ctx context.Context, pid int) error {
	return processIdle(ctx, "sing-warden", pid, inspectSleepingProcess)
}

func processIdle(ctx context.Context, name string, pid int, look func(pid int) (processSample, error)) error {
	began, err := procfs.StartTime(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = waitUntilIdle(ctx, pid, began, look)
	}
	if err != nil {
		return fmt.Errorf("%s %d: %w", name, pid, err)
	}
	return nil
}

// The kernel has no event for "this process sleeps and has no work waiting". So the process is polled, at first often.
const (
	firstLook = 2 * time.Millisecond
	lastLook  = 50 * time.Millisecond
)

// waitUntilIdle looks until two looks in a row saw no work, and no thread had run in between.
func waitUntilIdle(ctx context.Context, pid int, began uint64, lookAt func(pid int) (processSample, error)) error {
	interval := firstLook
	timer := time.NewTimer(0)
	defer timer.Stop()
	var before processSample
	for {
		now, err := lookAt(pid)
		if !isStill(pid, began) {
			return nil // the process has ended: none of its output is on the way
		}
		if err != nil {
			return err
		}
		if now.busy == "" && before.busy == "" && before.switches != "" && now.switches == before.switches {
			return nil
		}
		if now.busy == "" && before.busy == "" && before.switches != "" {
			now.moving = true
		}
		before = now
		timer.Reset(interval)
		interval = min(interval*3/2, lastLook)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("output is still on its way: %s: %w", now, ctx.Err())
		}
	}
}

// processSample is the state of a process at a moment.
type processSample struct {
	busy     string // the work that the process has to do; "" if it has none
	switches string // how often its threads have run
	moving   bool
}

func (l processSample) String() string {
	if l.busy == "" && l.moving {
		return "its threads run"
	}
	return l.busy
}

// inspectProcess looks at the threads first: if a thread runs after that, the switches of the next look show it.
func inspectProcess(pid int) (processSample, error) {
	l, err := lookAtThreads(pid, "S", (*processSample).lookAtCall)
	if err == nil && l.busy == "" {
		err = l.lookAtSockets(pid)
	}
	return l, err
}

// inspectSleepingProcess looks only whether the threads wait in poll, for input or for output.
func inspectSleepingProcess(pid int) (processSample, error) {
	return lookAtThreads(pid, "ST", func(l *processSample, _ int, dir string) error {
		call, err := os.ReadFile(filepath.Join(dir, "syscall"))
		number, _, _ := strings.Cut(string(call), " ")
		if nr, bad := strconv.Atoi(number); bad != nil || !isPoll(nr) && nr != unix.SYS_RESTART_SYSCALL {
			l.noteBusy("a thread runs")
		}
		return err
	})
}

// lookAtThreads notes whether a thread is busy: because it is in none of the given states, or by lookAtCall.
func lookAtThreads(pid int, states string, lookAtCall func(l *processSample, pid int, dir string) error) (processSample, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tids, err := os.ReadDir(dir)
	if err != nil {
		return processSample{}, err
	}
	var l processSample
	var switches strings.Builder
	for _, tid := range tids {
		dir := filepath.Join(dir, tid.Name())
		err := l.lookAtThread(dir, states, &switches)
		if err == nil {
			err = lookAtCall(&l, pid, dir)
		}
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
				l.noteBusy("a thread has ended")
				continue
			}
			return processSample{}, err
		}
	}
	l.switches = switches.String()
	return l, nil
}

func (l *processSample) noteBusy(busy string) {
	if l.busy == "" {
		l.busy = busy
	}
}

func (l *processSample) lookAtThread(dir, states string, switches *strings.Builder) error {
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "State":
			if state := strings.TrimSpace(value); state == "" || !strings.Contains(states, state[:1]) {
				l.noteBusy("a thread runs")
			}
		case "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches":
			fmt.Fprintf(switches, "%s%s ", filepath.Base(dir), strings.TrimSpace(value))
		}
	}
	return nil
}

// lookAtCall notes whether a thread sleeps because its output is not read.
func (l *processSample) lookAtCall(pid int, dir string) error {
	call, err := os.ReadFile(filepath.Join(dir, "syscall"))
	if err != nil {
		return err
	}
	busy, err := waitsToWrite(pid, strings.Fields(string(call)))
	if busy != "" {
		l.noteBusy(busy)
	}
	return err
}

// waitsToWrite names the file to which a thread waits to write, from /proc/PID/syscall: number and arguments. srun and
// slurmstepd do all their input and output by poll, and ask for POLLOUT only when they have output.
func waitsToWrite(pid int, call []string) (string, error) {
	if len(call) < 3 {
		return "a thread runs", nil // "running"
	}
	nr, err := strconv.Atoi(call[0])
	if err != nil {
		return "", err
	}
	if nr == unix.SYS_WRITE || nr == unix.SYS_WRITEV || nr == unix.SYS_SENDTO || nr == unix.SYS_SENDMSG {
		fd, _ := strconv.ParseUint(strings.TrimPrefix(call[1], "0x"), 16, 32)
		return "it waits to write to " + readDescriptorName(pid, int(fd)), nil
	}
	if !isPoll(nr) {
		return "", nil
	}
	addr, err1 := strconv.ParseUint(strings.TrimPrefix(call[1], "0x"), 16, 64)
	n, err2 := strconv.ParseUint(strings.TrimPrefix(call[2], "0x"), 16, 64)
	if err1 != nil || err2 != nil || n > maxPolled {
		return "", fmt.Errorf("poll of %s descriptors", call[2])
	}
	return polledForWriting(pid, addr, int(n))
}

const (
	maxPolled  = 1 << 20
	pollFDSize = 8 // int fd, short events, short revents
)

func polledForWriting(pid int, addr uint64, n int) (string, error) {
	if n == 0 {
		return "", nil
	}
	b := make([]byte, n*pollFDSize)
	got, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}},
		[]unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	if errors.Is(err, unix.ESRCH) {
		return "a thread has ended", nil
	}
	if err != nil || got < len(b) {
		return "a thread runs", nil //nolint:nilerr // since we looked, the thread has left poll and given up the array
	}
	for ; len(b) > 0; b = b[pollFDSize:] {
		fd := int32(binary.NativeEndian.Uint32(b))
		events := binary.NativeEndian.Uint16(b[4:])
		if fd >= 0 && events&unix.POLLOUT != 0 {
			return "it waits to write to " + readDescriptorName(pid, int(fd)), nil
		}
	}
	return "", nil
}

// readDescriptorName is the target of a descriptor, for people.
func readDescriptorName(pid, fd int) string {
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	if err != nil {
		return fmt.Sprintf("descriptor %d", fd)
	}
	return fmt.Sprintf("descriptor %d (%s)", fd, link)
}
