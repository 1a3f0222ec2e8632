// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// srunDescriptors bounds the descriptors of an srun that are looked at: an srun has some twenty, and a connection to each node.
// Its user may have given the process any number.
const srunDescriptors = 1 << 14

// FindLargeInputs looks for files that sruns read themselves (srun --input=FILE) and of which more is left than a checkpoint
// can take in. srun is in no image, and reads on as fast as the wardens of its tasks take the input: without this look a
// checkpoint would fail as well, but only after the wardens have copied 64 MiB for each task into the job's memory.
func FindLargeInputs(sruns []int) (found []Obstacle) {
	for _, pid := range sruns {
		path, left := findLargeInput(pid)
		if path == "" {
			continue
		}
		found = append(found, Obstacle{
			PID: pid, Name: commandName(pid),
			What: fmt.Sprintf("reads %s itself (--input), and has more than %d MiB of it before it", strconv.Quote(path), left>>20),
			Cure: "give the file as standard input of srun instead: srun ... <FILE",
		})
	}
	return found
}

// findLargeInput returns a file that a process reads and of which more than maxQueue is still to be read. left is
// rounded to steps of maxQueue, so that the text for people does not change at each look. The path is "" if there is
// none.
func findLargeInput(pid int) (path string, left int64) {
	dir := fmt.Sprintf("/proc/%d", pid)
	folder, err := os.Open(dir + "/fd")
	if err != nil {
		return "", 0 // the process has ended
	}
	defer folder.Close()
	names, err := folder.Readdirnames(srunDescriptors)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", 0
	}
	for _, name := range names {
		link := filepath.Join(dir, "fd", name)
		to, err := os.Readlink(link)
		if err != nil || !filepath.IsAbs(to) || strings.HasPrefix(to, "/memfd:") {
			continue
		}
		at, flags, err := parsePosition(filepath.Join(dir, "fdinfo", name))
		if err != nil || flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_PATH != 0 {
			continue
		}
		f, err := mounts.Stat(link)
		if err != nil || f.Kind() != unix.S_IFREG {
			continue
		}
		if left := int64(min(f.Size, 1<<62)) - at; at >= 0 && left > maxQueue {
			return to, left / maxQueue * maxQueue
		}
	}
	return "", 0
}
