// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/checkpoint-restore/go-criu/v7/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/regfile"
	"google.golang.org/protobuf/proto"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
)

// CRIU does not know POSIX message queues. An open queue is a regular file for CRIU, on a mount that the kernel keeps
// for itself. At a dump criu is told that these files are external, so criu notes their flags and which processes
// share them. At a restore criu is given the open queues. The caller captures and restores their contents.

// queueOptions tell criu that the queues are external.
func queueOptions(s *messagequeue.State) []string {
	var args []string
	for n := range s.Len() {
		args = append(args, "--external", s.Queues[n].File)
	}
	return args
}

// queueNames returns the names of queues, by the names that CRIU gives their files.
func queueNames(s *messagequeue.State) map[string]string {
	if s.Len() == 0 {
		return nil
	}
	names := map[string]string{}
	for _, q := range s.Queues {
		names[q.File] = q.Name
	}
	return names
}

// handQueues opens the queues that the program had open, and adds them to the files that c inherits; the caller closes
// them. If the program gets an IPC namespace of its own, handQueues makes the namespace, with its queues. criu joins
// that namespace before it makes System V objects: a namespace that criu itself made would have no queues.
func (r *restorer) handQueues(ctx context.Context, c *command) ([]*os.File, error) {
	if len(r.image.Queues) == 0 {
		return nil, nil
	}
	var files []*os.File
	namespace := fmt.Sprintf("/proc/%d/ns/ipc", r.init)
	if r.image.HasSysV() {
		if r.queues == nil {
			return nil, errors.New("the contents of the program's message queues are missing")
		}
		ns, err := messagequeue.NewNamespace(ctx, r.queues)
		if err != nil {
			return nil, err
		}
		files = append(files, ns)
		namespace = fmt.Sprintf("/proc/self/fd/%d", ns.Fd())
		c.args = append(c.args, "--join-ns", fmt.Sprintf("ipc:/proc/self/fd/%d", firstFree+len(c.files)))
	}
	opened, err := r.openQueues(namespace)
	files = append(files, opened...)
	if err != nil {
		localsock.CloseAll(files)
		return nil, err
	}
	first := firstFree + len(c.files) + len(files) - len(opened)
	for i, f := range opened {
		c.args = append(c.args, "--inherit-fd", fmt.Sprintf("fd[%d]:%s", first+i, f.Name()))
	}
	c.files = append(append([]*os.File{}, c.files...), files...)
	return files, nil
}

// openQueues opens the queues of a namespace as the program had them open, and notes the names under which criu gets
// them. The caller closes the files, also after an error.
func (r *restorer) openQueues(namespace string) (opened []*os.File, err error) {
	entries, err := r.queueFiles()
	if err != nil {
		return nil, err
	}
	r.opened = map[uint32]string{}
	for _, f := range entries {
		queue := r.image.Queues[queueFile(f)]
		name := fmt.Sprintf("singularity-queue-%d", f.GetId())
		q, err := messagequeue.Open(namespace, queue, int(f.GetFlags()), name)
		if err != nil {
			return opened, fmt.Errorf("message queue /%s: %w", queue, err)
		}
		opened = append(opened, q)
		r.opened[f.GetId()] = name
	}
	return opened, nil
}

// queueFile is CRIU's name of an external file, "" if the file is not external.
func queueFile(f *regfile.RegFileEntry) string {
	if !f.GetExt() {
		return ""
	}
	return strings.TrimPrefix(f.GetName(), "/")
}

// queueFiles returns the open queues of an image.
func (r *restorer) queueFiles() ([]*regfile.RegFileEntry, error) {
	in, err := r.source.Open(filesName)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var found []*regfile.RegFileEntry
	err = eachEntry(bufio.NewReader(in), filesMagic, func(b []byte) error {
		var m fdinfo.FileEntry
		if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%w: %w", errImage, err)
		}
		if _, ok := r.image.Queues[queueFile(m.GetReg())]; ok {
			found = append(found, m.GetReg())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", filesName, err)
	}
	return found, nil
}
