// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package procfs reads the kernel's information about processes in /proc: state, parent, session, terminal and start
// time (Stat), and lists that a user can make as large as he likes: descriptors, arguments, the environment. Root reads
// these outside of the job's cgroup, so each read has a bound.
package procfs

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MaxDescriptors limits the descriptors of a process that Descriptors goes over. A process with more cannot be
// captured.
const MaxDescriptors = 1 << 16

// ErrTooMany says that a process has more descriptors than MaxDescriptors.
var ErrTooMany = fmt.Errorf("the process has more than %d descriptors, which are the most that can be captured", MaxDescriptors)

// chunk is the number of names that are in memory at a time.
const chunk = 1024

// Descriptor is a descriptor of a process. The process may have closed it.
type Descriptor struct {
	Number int
	dir    string // /proc/PID
}

// DescriptorOf returns the Descriptor for a number, whether or not the process has it open.
func DescriptorOf(pid, number int) Descriptor {
	return Descriptor{number, fmt.Sprintf("/proc/%d", pid)}
}

// Path is the link in /proc by which the file of the descriptor can be opened.
func (d Descriptor) Path() string { return filepath.Join(d.dir, "fd", strconv.Itoa(d.Number)) }

// InfoPath is the file in /proc with the flags and the position of the descriptor.
func (d Descriptor) InfoPath() string { return filepath.Join(d.dir, "fdinfo", strconv.Itoa(d.Number)) }

// OpenFlags returns the flags with which the file is open, as open(2) has them.
func (d Descriptor) OpenFlags() (int, error) {
	f, err := os.Open(d.InfoPath())
	if err != nil {
		return 0, err
	}
	defer f.Close()
	begin := make([]byte, 128) // position and flags come first; behind them is a line for each of the process's locks
	n, err := io.ReadFull(f, begin)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, err
	}
	for line := range strings.Lines(string(begin[:n])) {
		if v, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseInt(strings.TrimSpace(v), 8, 64)
			return int(flags), err
		}
	}
	return 0, fmt.Errorf("%s: no flags", d.InfoPath())
}

// Link returns the kernel's name of the file.
func (d Descriptor) Link() (string, error) { return os.Readlink(d.Path()) }

// Descriptors goes over the descriptors of a process, the lowest first. It ends with an error if the process has more than
// MaxDescriptors, or cannot be looked at; IsEnded says of the error whether the process has ended. Descriptors that the
// process opens or closes meanwhile may be missing.
func Descriptors(pid int) iter.Seq2[Descriptor, error] {
	return readDescriptorsLimited(pid, MaxDescriptors)
}

// readDescriptorsLimited is Descriptors for a process with at most a number of descriptors.
func readDescriptorsLimited(pid, most int) iter.Seq2[Descriptor, error] {
	return func(yield func(Descriptor, error) bool) {
		folder, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			yield(Descriptor{}, err)
			return
		}
		defer folder.Close()
		for seen := 0; ; {
			names, err := folder.Readdirnames(chunk)
			for _, name := range names {
				number, bad := strconv.Atoi(name)
				if bad != nil {
					yield(Descriptor{}, bad)
					return
				}
				if seen++; seen > most {
					yield(Descriptor{}, ErrTooMany)
					return
				}
				if !yield(DescriptorOf(pid, number), nil) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Descriptor{}, err)
				return
			}
		}
	}
}

// IsEnded says whether an error of Descriptors means that the process has ended.
func IsEnded(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) }
