// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "runtime"

// Code is a compiled function. It does not change, and may be run by many goroutines at once, each with a State of its own.
type Code struct {
	text    *text
	full    []int32 // offsets of entries by instruction, for warps in which all lanes run; 0: no entry
	masked  []int32 // for other warps
	exits   []exit
	resumes []int32 // offset of the code after an exit; 0: the code cannot go on there
	resume  int
	needs   bool // see NeedsZeros
}

// Compile makes machine code of a function. The function's last instruction must not lead to a next. An error says that the
// processor or the system does not allow machine code (see Check).
func Compile(insts []Inst) (*Code, error) {
	if err := Check(); err != nil {
		return nil, err
	}
	e, code, err := compileFunction(insts)
	if err != nil {
		return nil, err
	}
	c := &Code{full: make([]int32, len(insts)), masked: make([]int32, len(insts)), exits: e.exits, resume: e.resume, needs: e.live.atStart}
	for _, x := range e.entries {
		if x.masked {
			c.masked[x.pc] = int32(e.a.Place(x.label))
		} else {
			c.full[x.pc] = int32(e.a.Place(x.label))
		}
	}
	c.resumes = make([]int32, len(e.exits))
	for i, x := range e.exits {
		if x.resumes {
			c.resumes[i] = int32(e.a.Place(x.label))
		}
	}
	c.text, err = newText(code)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Size is the number of bytes of machine code.
func (c *Code) Size() int { return len(c.text.bytes) }

// NeedsZeros reports whether the function may read a Word or a Long that it has not written.
func (c *Code) NeedsZeros() bool { return c.needs }

// Exit is the instruction at which code has returned.
type Exit struct {
	PC   int32 // the instruction that the interpreter is to execute
	exit int32 // from 1; 0: the code cannot go on after it
}

// Resumes reports whether the code can go on after the instruction at which it has returned, see Resume.
func (p Exit) Resumes() bool { return p.exit != 0 }

const allLanes = ^uint32(0)

// HasEntry reports whether code can be entered at an instruction, by the lanes of mask.
func (c *Code) HasEntry(pc int32, mask uint32) bool {
	if mask == allLanes {
		return c.full[pc] != 0
	}
	return c.masked[pc] != 0
}

// Run runs code from an instruction on that has an entry, until an instruction that is left to the interpreter. The
// caller sets and reads all fields of State but Exit, Uniform and Save.
func (c *Code) Run(s *State, pc int32) Exit {
	s.forgetSplits()
	at := c.masked[pc]
	if s.Mask == allLanes {
		at = c.full[pc]
	}
	callCode(s, c.text.codeAddress(0), c.text.codeAddress(int(at)))
	return c.leaveAt(s)
}

// RunAgain runs code from its beginning, after a run from there that has left s as the run found it but for what it counts:
// no lanes had parted at its exit. The code may take as many branches as budget says.
func (c *Code) RunAgain(s *State, budget int64) Exit {
	s.Budget, s.Issued, s.Ticks, s.Spinning, s.LocalUsed = budget, 0, 0, false, false
	at := c.masked[0]
	if s.Mask == allLanes {
		at = c.full[0]
	}
	callCode(s, c.text.codeAddress(0), c.text.codeAddress(int(at)))
	return c.leaveAt(s)
}

// Resume goes on after an instruction at which the code has returned, when the interpreter has executed it. The lanes
// that run must be the same.
func (c *Code) Resume(s *State, p Exit) Exit {
	x := &c.exits[p.exit-1]
	for _, v := range x.after {
		s.Save[v.vec] = *s.fileBytes(v.at)
	}
	s.Issued -= uint64(x.issued) + 1
	s.forgetSplits()
	callCode(s, c.text.codeAddress(c.resume), c.text.codeAddress(int(c.resumes[p.exit-1])))
	return c.leaveAt(s)
}

// leaveAt brings the registers up to date after an exit.
func (c *Code) leaveAt(s *State) Exit {
	x := &c.exits[s.Exit]
	for _, v := range x.before {
		*s.fileBytes(v.at) = s.Save[v.vec]
	}
	s.Issued += uint64(x.issued)
	runtime.KeepAlive(c)
	p := Exit{PC: x.pc}
	if x.resumes {
		p.exit = int32(s.Exit) + 1
	}
	return p
}
