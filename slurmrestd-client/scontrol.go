// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Scontrol runs Slurm's own scontrol. Run returns its standard output. When scontrol ran and
// failed, the error is or wraps a *ScontrolError. When there is no scontrol, the error is or wraps
// exec.ErrNotFound or fs.ErrNotExist. A Scontrol must be safe for concurrent use.
type Scontrol interface {
	Run(ctx context.Context, args ...string) (stdout []byte, err error)
}

// ScontrolError is an scontrol that failed.
type ScontrolError struct {
	Exit   int
	Output string // both of its outputs, standard output first
}

func (e *ScontrolError) Error() string {
	return fmt.Sprintf("%s (exit %d)", printableText(e.Output, 300), e.Exit)
}

// ExecScontrol executes scontrol on this host, which needs munge, or SLURM_JWT= among Env. The zero
// value is usable.
type ExecScontrol struct {
	Path string   // default /usr/bin/scontrol
	Env  []string // "NAME=value"; the environment of this process is not used
}

// maxScontrol limits the bytes that are read of scontrol's output.
const maxScontrol = 1 << 20

// Run implements Scontrol. scontrol is killed when the context ends. It writes into files and not into pipes: all of
// its output is there when it has ended. A reader of a pipe would also wait for other processes that have the pipe
// open, and for the goroutine that reads, which on a busy host may take long.
func (e ExecScontrol) Run(ctx context.Context, args ...string) ([]byte, error) {
	path := e.Path
	if path == "" {
		path = "/usr/bin/scontrol"
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "LC_ALL=C"}, e.Env...)
	stdout, err := newOutput()
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	stderr, err := newOutput()
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Run()
	out, read := readOutput(stdout)
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		said, bad := readOutput(stderr)
		return out, errors.Join(&ScontrolError{Exit: exit.ExitCode(), Output: string(said) + string(out)}, read, bad)
	}
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	return out, read
}

// newOutput returns a file in memory for the output of a command.
func newOutput() (*os.File, error) {
	fd, err := unix.MemfdCreate("scontrol", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "scontrol"), nil
}

// readOutput returns the first maxScontrol bytes of a command's output.
func readOutput(f *os.File) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f, 0, maxScontrol))
}

// runScontrol runs scontrol for a subject, and gives its error the meaning that the same text has
// in an answer of slurmrestd.
func (c *Client) runScontrol(ctx context.Context, subject string, args ...string) error {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	_, err := c.cfg.Scontrol.Run(ctx, args...)
	var failed *ScontrolError
	if errors.As(err, &failed) {
		return scontrolMeans(&Error{
			Method: "scontrol", Path: strings.Join(args, " "), Subject: subject,
			Description: printableText(failed.Output, 300),
		})
	}
	if err != nil {
		return fmt.Errorf("%s: scontrol %s: %w", subject, strings.Join(args, " "), err)
	}
	return nil
}

// scontrolMeans finds Slurm's number by its text.
func scontrolMeans(e *Error) error {
	for _, row := range meanings {
		if row.text != "" && strings.Contains(e.Description, row.text) {
			e.Number = row.number
			break
		}
	}
	return e.classifyError()
}

// scontrolProbe keeps the answer of checkScontrol once it is certain.
type scontrolProbe struct {
	mu    sync.Mutex
	known bool
	err   error
}

// checkScontrol reports whether there is an scontrol.
func (c *Client) checkScontrol(ctx context.Context) error {
	if c.cfg.Scontrol == nil {
		return &UnsupportedError{Feature: "requeue by scontrol", Needs: "Config.Scontrol", Found: "none"}
	}
	probe := &c.scontrolProbe
	probe.mu.Lock()
	defer probe.mu.Unlock()
	if probe.known {
		return probe.err
	}
	_, err := c.cfg.Scontrol.Run(ctx, "--version")
	switch {
	case isMissing(err):
		err = &UnsupportedError{Feature: "requeue by scontrol", Needs: "an scontrol", Found: err.Error()}
	case err != nil:
		return fmt.Errorf("scontrol --version: %w", err)
	}
	probe.known, probe.err = true, err
	return err
}

// isMissing reports whether the error means that scontrol is not installed.
func isMissing(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)
}

// scontrolNode is the command for an edit of a node.
func scontrolNode(name string, edit NodeUpdate) []string {
	args := []string{"update", "NodeName=" + name}
	for _, field := range []struct {
		key   string
		value *string
	}{{"State", edit.State}, {"Reason", edit.Reason}, {"Comment", edit.Comment}} {
		if field.value != nil {
			args = append(args, field.key+"="+*field.value)
		}
	}
	if edit.Weight != nil {
		args = append(args, fmt.Sprintf("Weight=%d", *edit.Weight))
	}
	return args
}
