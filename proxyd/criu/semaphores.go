// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"

	criu_core "github.com/checkpoint-restore/go-criu/v7/crit/images/criu-core"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/eventfd"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/regfile"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// CRIU does not know that an eventfd counts as a semaphore (EFD_SEMAPHORE in eventfd(2)), and restores the eventfd
// without that: a read takes the whole count, and the program's other reads wait forever. So a dump notes these
// eventfds. At a restore this process makes them, and criu inherits them: in the images given to criu they are regular
// files, with names that stand for the inherited eventfds.

const (
	idsMagic         = 0x54432030 // criu/include/magic.h
	descriptorsMagic = 0x56213732

	descriptorsPrefix = "fdinfo-"

	// maxSemaphores bounds the descriptors of such eventfds, each of which may be an eventfd for criu to inherit.
	maxSemaphores = 4096
)

// listSemaphores returns the descriptors of a process that are eventfds which count as semaphores. Linux before 6.5 does
// not show this property.
func listSemaphores(host int) ([]int, error) {
	var all []int
	for d, err := range procfs.Descriptors(host) {
		if err != nil {
			return nil, err
		}
		if link, err := d.Link(); err != nil || link != "anon_inode:[eventfd]" {
			continue
		}
		info, err := os.ReadFile(d.InfoPath())
		if err != nil || !strings.Contains(string(info), "\neventfd-semaphore: 1\n") {
			continue
		}
		all = append(all, d.Number)
	}
	return all, nil
}

// boundSemaphores returns an error if a program has more eventfds that count as semaphores than criu can be given.
func (i *Image) boundSemaphores() error {
	n := 0
	for _, p := range i.Processes {
		n += len(p.Semaphores)
	}
	if n > maxSemaphores {
		return fmt.Errorf("the program has %d descriptors of eventfds with EFD_SEMAPHORE, %d are the most", n, maxSemaphores)
	}
	return nil
}

// semaphoreName is the name by which criu inherits an eventfd.
func semaphoreName(id uint32) string { return fmt.Sprintf("singularity-semaphore-%d", id) }

// handSemaphores makes the eventfds that count as semaphores, and adds them to the files that c inherits; the caller
// closes them.
func (r *restorer) handSemaphores(_ context.Context, c *command) ([]*os.File, error) {
	var err error
	if r.semaphores, err = r.image.semaphoreEvents(r.source); err != nil || len(r.semaphores) == 0 {
		return nil, err
	}
	in, err := r.source.Open(filesName)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var made []*os.File
	err = eachEntry(bufio.NewReader(in), filesMagic, func(b []byte) error {
		var m fdinfo.FileEntry
		if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%w: %w", errImage, err)
		}
		if m.GetEfd() == nil || !r.semaphores[m.GetId()] {
			return nil
		}
		f, err := newSemaphore(m.GetEfd())
		if err != nil {
			return err
		}
		c.args = append(c.args, "--inherit-fd", fmt.Sprintf("fd[%d]:%s", firstFree+len(c.files)+len(made), f.Name()))
		made = append(made, f)
		return nil
	})
	if err != nil {
		localsock.CloseAll(made)
		return nil, fmt.Errorf("image %s: %w", filesName, err)
	}
	c.files = append(append([]*os.File{}, c.files...), made...)
	return made, nil
}

// newSemaphore makes an eventfd as it was.
func newSemaphore(e *eventfd.EventfdFileEntry) (*os.File, error) {
	fd, err := unix.Eventfd(0, unix.EFD_SEMAPHORE|unix.EFD_CLOEXEC|int(e.GetFlags())&unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	if e.GetCounter() > 0 {
		if _, err := unix.Write(fd, binary.NativeEndian.AppendUint64(nil, e.GetCounter())); err != nil {
			unix.Close(fd)
			return nil, os.NewSyscallError("write", err)
		}
	}
	return os.NewFile(uintptr(fd), semaphoreName(e.GetId())), nil
}

// semaphoreEvents returns the numbers in files.img of the eventfds that count as semaphores.
func (i *Image) semaphoreEvents(src Source) (map[uint32]bool, error) {
	all := map[uint32]bool{}
	for _, p := range i.Processes {
		if len(p.Semaphores) == 0 {
			continue
		}
		if err := p.addSemaphores(src, all); err != nil {
			return nil, fmt.Errorf("process %d (%s): %w", p.PID, p.Name, err)
		}
	}
	return all, nil
}

// addSemaphores adds the numbers of such eventfds of a process.
func (p Process) addSemaphores(src Source, all map[uint32]bool) error {
	var ids criu_core.TaskKobjIdsEntry
	err := eachEntryOf(src, fmt.Sprintf("ids-%d.img", p.PID), idsMagic, func(b []byte) error { return proto.Unmarshal(b, &ids) })
	if err != nil {
		return err
	}
	noted := map[uint32]bool{}
	for _, fd := range p.Semaphores {
		noted[uint32(fd)] = true
	}
	return eachEntryOf(src, fmt.Sprintf("%s%d.img", descriptorsPrefix, ids.GetFilesId()), descriptorsMagic, func(b []byte) error {
		var m fdinfo.FdinfoEntry
		if err := proto.Unmarshal(b, &m); err != nil {
			return err
		}
		if m.GetType() == fdinfo.FdTypes_EVENTFD && noted[m.GetFd()] {
			all[m.GetId()] = true
		}
		return nil
	})
}

// eachEntryOf calls f for each entry of an image of a source.
func eachEntryOf(src Source, name string, magic uint32, f func(entry []byte) error) error {
	in, err := src.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := eachEntry(bufio.NewReader(in), magic, f); err != nil {
		return fmt.Errorf("image %s: %w", name, err)
	}
	return nil
}

// inheritSemaphore changes the entry of an eventfd into the entry of a file that criu inherits.
func inheritSemaphore(m *fdinfo.FileEntry) {
	e := m.GetEfd()
	m.Type, m.Efd = fdinfo.FdTypes_REG.Enum(), nil
	m.Reg = &regfile.RegFileEntry{
		Id: e.Id, Flags: e.Flags, Pos: proto.Uint64(0), Fown: e.GetFown(), Name: proto.String("/" + semaphoreName(e.GetId())),
	}
}

// placeDescriptors returns an image of descriptors as it is to be restored, and the size of the image before.
// Descriptors of eventfds that criu inherits become descriptors of regular files.
func (r *restorer) placeDescriptors(in io.Reader) (*bytes.Reader, int64, error) {
	return rewriteEntries(in, descriptorsMagic, func(b []byte) ([]byte, error) {
		var m fdinfo.FdinfoEntry
		// A newer CRIU may have kinds of files that are unknown here; they are kept.
		if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, &m); err != nil {
			return nil, fmt.Errorf("%w: %w", errImage, err)
		}
		if m.GetType() != fdinfo.FdTypes_EVENTFD || !r.semaphores[m.GetId()] {
			return b, nil
		}
		m.Type = fdinfo.FdTypes_REG.Enum()
		return proto.Marshal(&m)
	})
}
