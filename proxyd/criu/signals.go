// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"

	criucore "github.com/checkpoint-restore/go-criu/v7/crit/images/criu-core"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/siginfo"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/timer"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// CRIU notes which signals wait for a process, then writes its memory, then notes its timers. The signal of
// a timer that goes off in between is in no image, nor is a signal sent meanwhile from outside. So
// the images with signals and timers, one for each thread, are kept back until criu is done; where
// the program has stood still all the time, signals that are pending by then are added to them.
const (
	corePrefix = "core-"
	coreMagic  = 0x55053847 // criu/include/magic.h

	siKernel, siTimer = 0x80, -2 // include/uapi/asm-generic/siginfo.h
	siSize            = 128
	sigevThreadID     = 4
)

// isCore says whether an image is of a thread's state.
func isCore(name string) bool { return strings.HasPrefix(name, corePrefix) }

func coreName(tid int) string { return corePrefix + strconv.Itoa(tid) + ".img" }

// pendingSignals is two sets of signals: for a thread, and for its whole process.
type pendingSignals struct{ own, shared uint64 }

// readPendingSignals returns the pending signals of a process's threads, by their ids in the capsule, for the threads
// that have any. A process that is gone has none.
func readPendingSignals(host int) map[int]pendingSignals {
	tasks := fmt.Sprintf("/proc/%d/task/", host)
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return nil
	}
	all := map[int]pendingSignals{}
	for _, t := range threads {
		b, err := os.ReadFile(tasks + t.Name() + "/status")
		if err != nil {
			continue
		}
		if tid, w := readWaiting(b); w != (pendingSignals{}) {
			all[tid] = w
		}
	}
	return all
}

func readWaiting(status []byte) (tid int, w pendingSignals) {
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		words := strings.Fields(value)
		if len(words) == 0 {
			continue
		}
		last := words[len(words)-1]
		switch key {
		case "NSpid":
			tid, _ = strconv.Atoi(last)
		case "SigPnd":
			w.own, _ = strconv.ParseUint(last, 16, 64)
		case "ShdPnd":
			w.shared, _ = strconv.ParseUint(last, 16, 64)
		}
	}
	return tid, w
}

// core is the state of a thread.
type core struct{ criucore.CoreEntry }

func readCore(image []byte) (*core, error) {
	var c core
	n := 0
	err := eachEntry(bufio.NewReader(bytes.NewReader(image)), coreMagic, func(b []byte) error {
		n++
		return proto.Unmarshal(b, &c.CoreEntry)
	})
	if err == nil && n != 1 {
		err = fmt.Errorf("%w: %d threads in it", errImage, n)
	}
	return &c, err
}

func (c *core) encodeImage() ([]byte, error) {
	body, err := proto.Marshal(&c.CoreEntry)
	if err != nil {
		return nil, err
	}
	b := binary.LittleEndian.AppendUint32(nil, commonMagic)
	b = binary.LittleEndian.AppendUint32(b, coreMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	return append(b, body...), nil
}

// addPendingSignals adds the pending signals of a thread to its image, if the image lacks any. timers are its
// process's.
func addPendingSignals(image []byte, tid int, w pendingSignals, timers *timer.TaskTimersEntry) ([]byte, error) {
	c, err := readCore(image)
	if err != nil {
		return nil, err
	}
	added := false
	if t := c.GetThreadCore(); t != nil && w.own != 0 {
		if late := signalsSinceDump(w.own, t.GetSignalsP(), timers, tid); len(late) > 0 {
			t.SignalsP, added = joinSignals(t.GetSignalsP(), late), true
		}
	}
	if t := c.GetTc(); t != nil && w.shared != 0 {
		if late := signalsSinceDump(w.shared, t.GetSignalsS(), timers, 0); len(late) > 0 {
			t.SignalsS, added = joinSignals(t.GetSignalsS(), late), true
		}
	}
	if !added {
		return image, nil
	}
	return c.encodeImage()
}

func joinSignals(q *siginfo.SignalQueueEntry, late []*siginfo.SiginfoEntry) *siginfo.SignalQueueEntry {
	return &siginfo.SignalQueueEntry{Signals: append(slices.Clone(q.GetSignals()), late...)}
}

// signalsSinceDump returns the signals that are pending now and that the image does not have. tid 0: signals of the
// process, not of a thread.
func signalsSinceDump(now uint64, noted *siginfo.SignalQueueEntry, timers *timer.TaskTimersEntry, tid int) []*siginfo.SiginfoEntry {
	for _, s := range noted.GetSignals() {
		if b := s.GetSiginfo(); len(b) >= 4 {
			now &^= signalBit(unix.Signal(binary.LittleEndian.Uint32(b)))
		}
	}
	now &^= signalBit(unix.SIGKILL) | signalBit(unix.SIGSTOP)
	var late []*siginfo.SiginfoEntry
	for ; now != 0; now &= now - 1 {
		sig := unix.Signal(bits.TrailingZeros64(now) + 1)
		if info := encodeSiginfo(sig, timers, tid); info != nil {
			late = append(late, &siginfo.SiginfoEntry{Siginfo: info})
		}
	}
	return late
}

func signalBit(s unix.Signal) uint64 {
	if s < 1 || s > 64 {
		return 0
	}
	return 1 << (s - 1)
}

// encodeSiginfo returns the siginfo of a signal: its sender was an expired timer, if the image has one. The result is
// nil if the image has a timer that is still to send the signal.
func encodeSiginfo(sig unix.Signal, timers *timer.TaskTimersEntry, tid int) []byte {
	var over *timer.PosixTimerEntry
	for _, t := range timers.GetPosix() {
		to := 0
		if t.GetItSigevNotify()&sigevThreadID != 0 {
			to = int(t.GetNotifyThreadId())
		}
		if unix.Signal(t.GetSiSigno()) != sig || to != tid {
			continue
		}
		if t.GetVsec() != 0 || t.GetVnsec() != 0 {
			return nil
		}
		over = t
	}
	alarm := sig == unix.SIGALRM && tid == 0
	if r := timers.GetReal(); alarm && (r.GetVsec() != 0 || r.GetVusec() != 0) {
		return nil
	}
	b := make([]byte, siSize)
	binary.LittleEndian.PutUint32(b, uint32(sig))
	switch {
	case over != nil:
		code := int32(siTimer)
		binary.LittleEndian.PutUint32(b[8:], uint32(code))
		binary.LittleEndian.PutUint32(b[16:], over.GetItId())
		binary.LittleEndian.PutUint32(b[20:], over.GetOverrun())
		binary.LittleEndian.PutUint64(b[24:], over.GetSivalPtr())
	case alarm:
		binary.LittleEndian.PutUint32(b[8:], siKernel)
	}
	return b
}

// keepThreadState takes the image of a thread's state in.
func (d *dumper) keepThreadState(st *stream) error {
	var b []byte
	err := st.usePipe(func(pipe *os.File) (err error) {
		b, err = io.ReadAll(io.LimitReader(pipe, maxEntry))
		return err
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, twice := d.cores[st.name]; twice {
		return fmt.Errorf("image %s: criu made it twice", st.name)
	}
	d.cores[st.name] = b
	return nil
}

// releaseKept puts the images that were kept into the sink. If the program has been frozen since before the dump, the
// signals that are pending by now are added.
func (d *dumper) releaseKept(i *Image) error {
	if d.frozen {
		if err := d.completeKept(i); err != nil {
			return err
		}
	}
	for n, f := range i.Files {
		b, kept := d.cores[f.Name]
		if !kept {
			continue
		}
		w, err := d.sink.Create(f.Name)
		if err == nil {
			_, err = w.Write(b)
			err = errors.Join(err, w.Close())
		}
		if err != nil {
			return fmt.Errorf("image %s: %w", f.Name, err)
		}
		i.Files[n].Size = int64(len(b))
	}
	return nil
}

// completeKept adds to the images the signals that are pending by now.
func (d *dumper) completeKept(i *Image) error {
	members, err := listMembers(i.Program.Init)
	if err != nil {
		return fmt.Errorf("signals: %w", err)
	}
	for _, p := range i.Processes {
		waits := readPendingSignals(members[p.PID].host)
		if len(waits) == 0 {
			continue
		}
		leader, err := readCore(d.cores[coreName(p.PID)])
		if err != nil {
			return fmt.Errorf("image %s: %w", coreName(p.PID), err)
		}
		timers := leader.GetTc().GetTimers()
		for tid, w := range waits {
			name := coreName(tid)
			b, ok := d.cores[name]
			if !ok {
				continue
			}
			if d.cores[name], err = addPendingSignals(b, tid, w, timers); err != nil {
				return fmt.Errorf("image %s: %w", name, err)
			}
		}
	}
	return nil
}
