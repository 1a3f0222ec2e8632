//go:build faults

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// line is a line of a daemon's log.
type line struct{ host, text string }

// tails follows the logs of the proxyds of all nodes.
type tails struct {
	notify *os.File
	files  map[string]*os.File
	rest   map[string][]byte
	ready  []line
}

// followLogs begins at the logs' present ends.
func (c *cluster) followLogs() (*tails, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	t := &tails{notify: os.NewFile(uintptr(fd), "inotify"), files: map[string]*os.File{}, rest: map[string][]byte{}}
	for _, n := range nodes {
		path := c.Log(n, "proxyd")
		_, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY)
		if err == nil {
			t.files[n], err = os.Open(path)
		}
		if err == nil {
			_, err = t.files[n].Seek(0, io.SeekEnd)
		}
		if err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

func (t *tails) close() {
	t.notify.Close()
	for _, f := range t.files {
		f.Close()
	}
}

// newLines returns the lines that are there and were not returned yet.
func (t *tails) newLines() ([]line, error) {
	for host, f := range t.files {
		more, err := io.ReadAll(f)
		if err != nil {
			return nil, err
		}
		b := slices.Concat(t.rest[host], more)
		for {
			text, after, whole := bytes.Cut(b, []byte("\n"))
			if !whole {
				break
			}
			t.ready = append(t.ready, line{host, string(text)})
			b = after
		}
		t.rest[host] = bytes.Clone(b)
	}
	all := t.ready
	t.ready = nil
	return all, nil
}

// waitForLine waits for a line and returns the line.
func (t *tails) waitForLine(ctx context.Context, match func(line) bool) (line, error) {
	buf := make([]byte, 4096)
	for {
		all, err := t.newLines()
		if err != nil {
			return line{}, err
		}
		for i, l := range all {
			if match(l) {
				t.ready = all[i+1:]
				return l, nil
			}
		}
		if err := t.notify.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return line{}, err
		}
		if _, err := t.notify.Read(buf); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return line{}, err
		}
		if ctx.Err() != nil {
			return line{}, context.Cause(ctx)
		}
	}
}
