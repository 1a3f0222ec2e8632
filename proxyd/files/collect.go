// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// collector records the files at the job's paths.
type collector struct {
	*worker
	out     *State
	leaders map[[2]uint64]Name // the first path of each file
	earlier map[[2]uint64]*File
	reuse   map[string]bool // old streams worth referring to
	off     int64           // in the new stream
	buf     []byte

	described  int // bytes of maxDescribed that are taken
	missing    int // paths of the State at which no file is
	attributes int // bytes of maxStateXattrs that are taken
}

// recordState is the helper's part of Record.
func (w *worker) recordState() error {
	c := &collector{
		worker:  w,
		out:     &State{Mark: w.o.Mark, Boot: w.boot, Time: time.Now().UTC(), Lost: w.o.Lost, Files: map[Name]*File{}},
		leaders: map[[2]uint64]Name{},
		buf:     make([]byte, maxSegment),
	}
	c.chooseStreams()
	w.resolveEntries()
	w.followRenamed()
	t := newTree()
	full := w.state.countMissing() >= w.o.MostMissing
	for p, f := range w.state.Files {
		if f.Type != Missing || !full {
			t.nodeAt(string(p)).touched = true
		}
	}
	for _, e := range w.entries {
		t.applyEntry(e)
	}
	for _, p := range t.touchedPaths() {
		if err := c.recordPath(p, t); err != nil {
			return err
		}
		if f := c.out.Files[Name(p)]; f != nil && !c.reserveRoom(p, f) {
			delete(c.out.Files, Name(p))
			break
		}
	}
	c.recordParents()
	c.out.Lost = c.out.Lost || t.lost
	c.out.Notes = w.notes
	return w.p.sendJSON(frameResult, c.out)
}

// maxMissing bounds the paths in a State at which the job had a file and has none, such as those of temporary files: a job
// of weeks has any number of them. A State takes over those of the State before, unless that is full of them. PutBack
// asks for such a path only where the change list does not say whether the job made the file that is there: without the
// path, it goes by when the file was born, and leaves the file alone, with a note, where that cannot be known. A test
// changes it.
var maxMissing = 10_000

// countMissing returns the number of paths in the State at which no file is.
func (s *State) countMissing() (n int) {
	for _, f := range s.Files {
		if f.Type == Missing {
			n++
		}
	}
	return n
}

// reserveRoom takes room in the State for the description of a file, and returns whether there was room. If not, the State says so.
func (c *collector) reserveRoom(p string, f *File) bool {
	b, err := json.Marshal(FileMap{Name(p): f})
	if err == nil && c.described+len(b) <= c.o.Most {
		c.described += len(b)
		return true
	}
	if !c.out.Full {
		c.out.Lost, c.out.Full = true, true
		c.addProblem(p, fmt.Sprintf("not recorded, like all that follows: the job has changed more files than %d MiB describe", c.o.Most>>20))
	}
	return false
}

// chooseStreams decides which streams of the last State to refer to: where less than half of a
// stream is still used, that part is saved anew, so that old streams can be deleted.
func (c *collector) chooseStreams() {
	used := map[string]int64{}
	c.earlier = map[[2]uint64]*File{}
	for _, f := range c.state.Files {
		for _, g := range f.Data {
			used[g.Stream] += g.Size
		}
		if f.Type == Regular && f.LinkTo == "" && c.state.Boot == c.boot {
			c.earlier[[2]uint64{f.Dev, f.Ino}] = f
		}
	}
	c.reuse = map[string]bool{}
	for name, n := range used {
		c.reuse[name] = c.o.Reuse && n >= c.state.Streams[name]/2
	}
}

// recordPath records the file at a path.
func (c *collector) recordPath(p string, t *tree) error {
	if belowAny(p, c.skip) {
		return nil
	}
	n := t.findNode(p)
	st, err := statLink(p)
	if isMissing(err) {
		if c.missing++; c.missing <= c.o.MostMissing {
			c.out.Files[Name(p)] = &File{Type: Missing}
		}
		return nil
	}
	if err != nil {
		c.addProblem(p, "not recorded: "+err.Error())
		return nil //nolint:nilerr // the State has a note about the path
	}
	id := [2]uint64{st.Dev, st.Ino}
	if c.logs[id] {
		return nil
	}
	f := c.describeFile(p, st)
	c.out.Files[Name(p)] = f
	switch f.Type {
	case Symlink:
		target, err := os.Readlink(p)
		if err != nil {
			c.addProblem(p, "not recorded: "+err.Error())
			delete(c.out.Files, Name(p))
		}
		f.Target = Name(target)
	case Regular:
		if leader, ok := c.leaders[id]; ok {
			f.LinkTo = leader
			return nil
		}
		if c.onlyLinked(n, t, id) {
			f.LinkTo = Name(n.link)
			return nil
		}
		c.leaders[id] = Name(p)
		f.Wrote = n.wrote || st.Nlink > 1 // perhaps by another name
		f.Mapped = n.mapped || st.Nlink > 1
		err = c.recordContent(p, f, n)
		var broken *pipeError
		if err != nil && !errors.As(err, &broken) {
			c.addProblem(p, "content not recorded: "+err.Error())
			delete(c.out.Files, Name(p))
			delete(c.leaders, id)
			err = nil
		}
	case Missing, Dir, Fifo, Other:
	}
	c.recordXattrs(p, f)
	return err
}

// recordXattrs records the extended attributes of the file or folder at a path.
func (c *collector) recordXattrs(p string, f *File) {
	if f.Type != Regular && f.Type != Dir || f.UID != c.o.UID { // PutBack leaves files of others alone
		return
	}
	all, err := readOwnXattrs(p, f.Mode)
	if size := all.countBytes(); err == nil && c.attributes+size > c.o.MostXattrs {
		err = fmt.Errorf("the job's files have more than %d MiB of them", c.o.MostXattrs>>20)
	} else {
		c.attributes += size
	}
	if err != nil {
		c.addProblem(p, "extended attributes not recorded: "+err.Error())
		return
	}
	f.Xattrs = all
}

// onlyLinked says whether a path is only another name for a file that the job has not written: a data set that the job
// has linked somewhere is not saved.
func (c *collector) onlyLinked(n *node, t *tree, id [2]uint64) bool {
	if n.link == "" || n.wrote && !n.made || n.grew {
		return false
	}
	if o := t.findNode(n.link); o != nil && o.touched {
		return false
	}
	st, err := statLink(n.link)
	return err == nil && [2]uint64{st.Dev, st.Ino} == id
}

// recordContent fills in f.Data, and sends the segments that are not in an older stream to which f.Data can refer.
func (c *collector) recordContent(p string, f *File, n *node) error {
	old := c.earlier[[2]uint64{f.Dev, f.Ino}]
	if old != nil && c.isUntouched(old, f, n.wrote) && c.canKeep(old.Data) {
		f.Data = old.Data
		return nil
	}
	file, err := openForReading(p, f)
	if err != nil {
		return err
	}
	defer file.Close()
	from := int64(0)
	if old != nil && n.grew && !f.Wrote && !old.Wrote && old.Size <= f.Size && c.canKeep(old.Data) {
		// No program can have changed the earlier content, so that is not read: a descriptor that was open at the last cut
		// cannot have changed it either, because then the file would be Wrote. The last segment grows until it is whole.
		from = old.Size / maxSegment * maxSegment
		for _, g := range old.Data {
			if g.At+g.Size <= from {
				f.Data = append(f.Data, g)
			}
		}
	}
	known := map[int64]Segment{}
	if old != nil {
		for _, g := range old.Data {
			known[g.At] = g
		}
	}
	return c.recordExtents(file, from, f, known)
}

func (c *collector) canKeep(data []Segment) bool {
	return !slices.ContainsFunc(data, func(g Segment) bool { return !c.reuse[g.Stream] })
}

// recordExtents goes through the parts of a file that have data, in segments.
func (c *collector) recordExtents(file *os.File, from int64, f *File, known map[int64]Segment) error {
	fd := int(file.Fd())
	for from < f.Size {
		data, err := unix.Seek(fd, from, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // a hole to the end
		}
		if err != nil {
			data = from // a file system that does not report holes
		}
		// A segment begins at a multiple of its size, not of an extent, so that the same content has the same segments again.
		from = data / maxSegment * maxSegment
		size := min(maxSegment, f.Size-from)
		n, err := readFull(fd, c.buf[:size], from)
		if err != nil {
			return err
		}
		if err := c.takeSegment(c.buf[:n], from, f, known); err != nil {
			return err
		}
		if int64(n) < size {
			f.Size = from + int64(n) // another process has made the file shorter
			return nil
		}
		from += maxSegment
	}
	return nil
}

// takeSegment takes a segment into f, and sends a new segment. Zeros at its end are left out.
func (c *collector) takeSegment(b []byte, at int64, f *File, known map[int64]Segment) error {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return nil
	}
	g := Segment{At: at, Size: int64(len(b)), Hash: hashOf(b)}
	if old := known[at]; old.Size == g.Size && old.Hash == g.Hash && c.reuse[old.Stream] {
		f.Data = append(f.Data, old)
		return nil
	}
	g.Stream, g.Off = c.o.Stream, c.off
	if err := c.p.sendFrame(frameData, b); err != nil {
		return &pipeError{err}
	}
	c.off += g.Size
	f.Data = append(f.Data, g)
	return nil
}
