// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// movedProgram is a program under device servers that are replaced. The program writes to a file, as CRIU requires.
type movedProgram struct {
	k                    *kit
	folder, socket, text string
	server               *exec.Cmd
	lifeline             *os.File // ends the server when this process is gone, however that ended
	task                 task
	process              *os.Process
	ended                chan error // of process
	log                  lockedBuffer
	libs                 string
}

// lockedBuffer collects the output of several processes.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (m *movedProgram) readLog() string {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	return m.log.text.String()
}

// readOutput returns the program's output so far.
func (m *movedProgram) readOutput() string {
	text, _ := os.ReadFile(m.text) // the program may not have begun
	return string(text)
}

// startMoved starts a device server and the program. m has the output also after an error.
func (k *kit) startMoved(ctx context.Context, t task) (*movedProgram, error) {
	m := &movedProgram{k: k, task: t}
	var err error
	if m.folder, err = os.MkdirTemp("", "gpukit-"); err != nil {
		return m, err
	}
	m.socket, m.text, m.libs = filepath.Join(m.folder, "device"), filepath.Join(m.folder, "text"), filepath.Join(m.folder, "lib")
	err = errors.Join(os.Mkdir(filepath.Join(m.folder, "state"), 0o700), os.Mkdir(filepath.Join(m.folder, "images"), 0o700), os.Mkdir(m.libs, 0o700))
	shim := k.filePath("bin", "libsingshim-device.so")
	for _, name := range []string{"libsingshim-device.so", "libcuda.so.1", "libnccl.so.2", "libnvidia-ml.so.1"} {
		err = errors.Join(err, os.Symlink(shim, filepath.Join(m.libs, name)))
	}
	if err == nil {
		err = m.startServer(ctx)
	}
	if err == nil {
		err = m.startProgram(t)
	}
	if err != nil {
		return m, errors.Join(err, m.cleanUp())
	}
	return m, nil
}

func (m *movedProgram) startProgram(t task) error {
	out, err := os.OpenFile(m.text, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	errs, err := os.OpenFile(filepath.Join(m.folder, "errors"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer errs.Close()
	c := exec.Command(t.path, t.args...)
	folders := m.libs
	if old, is := os.LookupEnv("LD_LIBRARY_PATH"); is && old != "" {
		folders += ":" + old
	}
	c.Env = append(os.Environ(), t.env...)
	c.Env = append(c.Env, "LD_PRELOAD="+filepath.Join(m.libs, "libsingshim-device.so"), "LD_LIBRARY_PATH="+folders, "SINGULARITY_SLURM_DEVICE="+m.socket)
	c.Stdout, c.Stderr = out, errs
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	m.awaitProcess(c.Process)
	return nil
}

// awaitProcess waits for a child in the background.
func (m *movedProgram) awaitProcess(p *os.Process) {
	ended := make(chan error, 1)
	m.process, m.ended = p, ended
	go func() {
		state, err := p.Wait()
		if err == nil && !state.Success() {
			err = fmt.Errorf("it ended with %s", state)
		}
		ended <- err
	}()
}

// startServer starts a device server that listens at the socket.
func (m *movedProgram) startServer(ctx context.Context, more ...string) error {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: m.socket + "-control", Net: "unixpacket"})
	if err != nil {
		return err
	}
	defer l.Close() // the server has a copy
	l.SetUnlinkOnClose(false)
	theirs, err := l.File()
	if err != nil {
		return err
	}
	defer theirs.Close()
	told, ready, err := os.Pipe()
	if err != nil {
		return err
	}
	defer told.Close()
	theirEnd, lifeline, err := os.Pipe()
	if err != nil {
		return err
	}
	kind := "cuda"
	if m.k.soft {
		kind = "soft"
	}
	args := append([]string{"device", "--kind", kind, "--socket", m.socket, "--ready", "3", "--control", "4", "--lifeline", "5"}, m.k.deviceFlags(&m.task)...)
	m.server = exec.CommandContext(ctx, m.k.filePath("bin", "proxyd"), append(args, more...)...)
	m.server.Env = m.k.childEnvironment(nil)
	m.server.Stderr, m.server.Stdout = &m.log, &m.log
	m.server.ExtraFiles = []*os.File{ready, theirs, theirEnd}
	err = m.server.Start()
	ready.Close()
	theirEnd.Close()
	if err != nil {
		m.server = nil
		return errors.Join(err, lifeline.Close())
	}
	m.lifeline = lifeline
	if _, err := bufio.NewReader(told).ReadString('\n'); err != nil {
		return fmt.Errorf("the device server does not start: %w", err)
	}
	return nil
}

// killServer ends the device server as a fault would.
func (m *movedProgram) killServer() error {
	if m.server == nil {
		return nil
	}
	_ = m.server.Process.Kill()
	_ = m.server.Wait() // the server was killed
	m.lifeline.Close()
	m.server = nil
	return os.Remove(m.socket + "-control")
}

// cleanUp ends the program and the device server, keeps the output in the logs, and removes their folder.
func (m *movedProgram) cleanUp() error {
	if m.process != nil {
		_ = syscall.Kill(-m.process.Pid, syscall.SIGKILL) // a session is a group, too
		fmt.Fprintln(&m.log, "the program has ended:", <-m.ended)
		m.process = nil
	}
	if m.server != nil {
		_ = m.killServer()
	}
	errs, _ := os.ReadFile(filepath.Join(m.folder, "errors"))
	fmt.Fprintf(&m.log, "--- the program's standard error\n%s", errs)
	text := m.readOutput()
	err := os.RemoveAll(m.folder)
	m.text = filepath.Join(m.k.out, "logs", "printed") // kept for printed
	return errors.Join(err, os.WriteFile(m.text, []byte(text), 0o666))
}

// dumpProgram writes the program's images. CRIU ends the program.
func (m *movedProgram) dumpProgram() error {
	if err := m.runCRIU("dump", "--tree", strconv.Itoa(m.process.Pid)); err != nil {
		return err
	}
	fmt.Fprintln(&m.log, "the program was dumped, and has ended:", <-m.ended) // else its number is in use
	return nil
}

// restoreProgram has the program come back with the same number, as a child of this process.
func (m *movedProgram) restoreProgram() error {
	pid := m.process.Pid
	m.process = nil
	if err := m.runCRIU("restore", "--restore-detached", "--restore-sibling"); err != nil {
		return err
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	m.awaitProcess(p)
	return nil
}

func (m *movedProgram) runCRIU(args ...string) error {
	images := filepath.Join(m.folder, "images")
	args = append(args, "--no-default-config", "--images-dir", images, "-v3", "--log-file", "log")
	out, err := exec.Command("criu", args...).CombinedOutput()
	if err == nil {
		return nil
	}
	log, _ := os.ReadFile(filepath.Join(images, "log"))
	fmt.Fprintf(&m.log, "--- criu %s\n%s%s", args[0], out, log)
	why := ""
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "Error") {
			why = strings.TrimSpace(line)
		}
	}
	return fmt.Errorf("criu %s: %w: %s", args[0], err, why)
}
