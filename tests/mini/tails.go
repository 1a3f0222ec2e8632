// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package mini

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

// Line is one of a daemon's log.
type Line struct{ Host, Text string }

// Tails follows the logs of one daemon of several hosts. It is used by one goroutine.
type Tails struct {
	notify *os.File
	files  map[string]*os.File
	rest   map[string][]byte
	ready  []Line
}

// Follow begins at the logs' present ends. The caller closes what it returns.
func (c Cluster) Follow(daemon string, hosts ...string) (*Tails, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	t := &Tails{notify: os.NewFile(uintptr(fd), "inotify"), files: map[string]*os.File{}, rest: map[string][]byte{}}
	for _, n := range hosts {
		path := c.Log(n, daemon)
		_, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY)
		if err == nil {
			t.files[n], err = os.Open(path)
		}
		if err == nil {
			_, err = t.files[n].Seek(0, io.SeekEnd)
		}
		if err != nil {
			t.Close()
			return nil, err
		}
	}
	return t, nil
}

// Close ends it.
func (t *Tails) Close() {
	t.notify.Close()
	for _, f := range t.files {
		f.Close()
	}
}

// Now returns the lines that are there and were not returned yet.
func (t *Tails) Now() ([]Line, error) {
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
			t.ready = append(t.ready, Line{host, string(text)})
			b = after
		}
		t.rest[host] = bytes.Clone(b)
	}
	all := t.ready
	t.ready = nil
	return all, nil
}

// Until waits for a line and returns it.
func (t *Tails) Until(ctx context.Context, match func(Line) bool) (Line, error) {
	buf := make([]byte, 4096)
	for {
		all, err := t.Now()
		if err != nil {
			return Line{}, err
		}
		for i, l := range all {
			if match(l) {
				t.ready = all[i+1:]
				return l, nil
			}
		}
		if err := t.notify.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return Line{}, err
		}
		if _, err := t.notify.Read(buf); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return Line{}, err
		}
		if ctx.Err() != nil {
			return Line{}, context.Cause(ctx)
		}
	}
}
