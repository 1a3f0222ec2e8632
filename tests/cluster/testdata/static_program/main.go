// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Static_program is a program of Go, which does not go through libc: static DIR STEPS PAUSE. The files that
// the program leaves in DIR depend on STEPS only. The program stops when a file is there that should not be, or
// is missing. At two steps the program waits for a file: DIR.captured, and DIR.goes-on.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const fresh = os.O_CREATE | os.O_EXCL | os.O_WRONLY

type program struct {
	dir               string
	open, late, ghost *os.File
}

func main() {
	steps, err := strconv.Atoi(os.Args[2])
	must(err)
	pause, err := time.ParseDuration(os.Args[3])
	must(err)
	p := &program{dir: os.Args[1]}
	must(os.Mkdir(p.dir, 0o755))
	p.open = p.openFile("open", fresh|os.O_APPEND)
	p.ghost, err = os.CreateTemp("", "ghost")
	must(err)
	must(os.Remove(p.ghost.Name()))
	for i := 1; i <= steps; i++ {
		p.takeStep(i)
		fmt.Println(i)
		time.Sleep(pause)
		switch i {
		case 31: // to be captured here: what is known of folders depends on the step
			waitForFile(p.dir+".captured", pause)
		case 70: // to be killed here: of the last moments before that, nothing may be known
			waitForFile(p.dir+".goes-on", pause)
		}
	}
	st, err := p.ghost.Stat()
	must(err)
	fmt.Println("ghost", st.Size())
}

func waitForFile(path string, pause time.Duration) {
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(pause)
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func (p *program) pathOf(format string, args ...any) string {
	return filepath.Join(p.dir, fmt.Sprintf(format, args...))
}

func (p *program) openFile(name string, flags int) *os.File {
	f, err := os.OpenFile(p.pathOf("%s", name), flags, 0o644)
	must(err)
	return f
}

func (p *program) writeText(name string, flags int, text string) {
	f := p.openFile(name, flags)
	_, err := f.WriteString(text)
	must(err)
	must(f.Close())
}

func (p *program) takeStep(i int) {
	line := fmt.Sprintln("step", i)
	p.writeText("log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, line)
	for _, f := range []*os.File{p.open, p.ghost} {
		_, err := f.WriteString(line)
		must(err)
	}

	// Files that exist for five steps each.
	p.writeText(fmt.Sprint("file.", i), fresh, line)
	if i > 5 {
		must(os.Remove(p.pathOf("file.%d", i-5)))
	}

	// A file is saved as careful programs do: written beside the earlier file, and renamed over it.
	p.writeText("state.tmp", fresh, line)
	must(os.Rename(p.pathOf("state.tmp"), p.pathOf("state")))

	// A file is changed in place.
	table := p.openFile("table", os.O_CREATE|os.O_WRONLY)
	_, err := table.WriteAt(fmt.Appendf(nil, "%8d", i), int64(i%16*8))
	must(err)
	must(table.Close())

	if i%4 == 0 { // the first name is always the same, the last name another each time
		p.writeText("part", fresh, line)
		must(os.Rename(p.pathOf("part"), p.pathOf("part.%d", i)))
	}
	if i%7 == 0 {
		name := fmt.Sprint("dir.", i)
		must(os.Mkdir(p.pathOf("%s", name), 0o755))
		p.writeText(name+"/in", fresh, line)
	}
	if i%14 == 0 {
		must(os.RemoveAll(p.pathOf("dir.%d", i-7)))
	}
	if i%128 == 40 { // a new file, kept open
		if p.late != nil {
			must(p.late.Close())
		}
		p.late = p.openFile(fmt.Sprint("late.", i), fresh|os.O_APPEND)
	}
	if p.late != nil {
		_, err := p.late.WriteString(line)
		must(err)
	}
}
