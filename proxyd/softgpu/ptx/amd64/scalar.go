// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package amd64

// Cond is the condition of a jump.
type Cond uint8

// The conditions, with the numbers that the processor gives them.
const (
	Below        Cond = 2 // unsigned less; the carry flag
	AboveOrEqual Cond = 3
	Equal        Cond = 4
	NotEqual     Cond = 5
	Less         Cond = 12

	GreaterOrEqual Cond = 13
	LessOrEqual    Cond = 14
)

// scalars adds the instructions of general registers.
type scalars struct{ buffer }

// emitRex emits a REX prefix, if needed.
func (a *scalars) emitRex(wide bool, reg, index, base uint8) {
	b := byte(0x40)
	if wide {
		b |= 8
	}
	b |= reg >> 3 & 1 << 2
	b |= index >> 3 & 1 << 1
	b |= base >> 3 & 1
	if b != 0x40 {
		a.emitBytes(b)
	}
}

// emitWithMemory emits an instruction with an operand in memory.
func (a *scalars) emitWithMemory(wide bool, reg uint8, m Mem, op ...byte) {
	a.emitRex(wide, reg, uint8(m.Index), uint8(m.Base))
	a.emitBytes(op...)
	a.emitMemory(reg, m, 1)
}

// emitWithRegisters emits an instruction of two registers.
func (a *scalars) emitWithRegisters(wide bool, reg, rm uint8, op ...byte) {
	a.emitRex(wide, reg, 0, rm)
	a.emitBytes(op...)
	a.emitBytes(0xc0 | reg&7<<3 | rm&7)
}

// Load64 is d = 8 bytes of memory.
func (a *scalars) Load64(d Reg, m Mem) { a.emitWithMemory(true, uint8(d), m, 0x8b) }

// Load32 is d = 4 bytes of memory; the upper half of d becomes zero.
func (a *scalars) Load32(d Reg, m Mem) { a.emitWithMemory(false, uint8(d), m, 0x8b) }

// LoadNarrow is d = size bytes of memory, 1 or 2, extended to 32 bits with or without sign.
func (a *scalars) LoadNarrow(d Reg, m Mem, size int, signed bool) {
	op := byte(0xb6)
	if signed {
		op = 0xbe
	}
	if size == 2 {
		op++
	}
	a.emitWithMemory(false, uint8(d), m, 0x0f, op)
}

// Store64 and Store32 write a register to memory.
func (a *scalars) Store64(m Mem, s Reg) { a.emitWithMemory(true, uint8(s), m, 0x89) }

// Store32 writes the lower half of a register to memory.
func (a *scalars) Store32(m Mem, s Reg) { a.emitWithMemory(false, uint8(s), m, 0x89) }

// StoreConst32 writes a constant of 4 bytes to memory.
func (a *scalars) StoreConst32(m Mem, v uint32) {
	a.emitWithMemory(false, 0, m, 0xc7)
	a.emit32(v)
}

// StoreConst8 writes a byte to memory.
func (a *scalars) StoreConst8(m Mem, v byte) {
	a.emitWithMemory(false, 0, m, 0xc6)
	a.emitBytes(v)
}

// Address is d = the address of m.
func (a *scalars) Address(d Reg, m Mem) { a.emitWithMemory(true, uint8(d), m, 0x8d) }

// AddressOf is d = the address of a label, which may be bound later.
func (a *scalars) AddressOf(d Reg, l Label) {
	a.emitRex(true, uint8(d), 0, 0)
	a.emitBytes(0x8d, 5|byte(d&7)<<3)
	a.emitLabel(l)
}

// Const32 is d = v, 32 bits.
func (a *scalars) Const32(d Reg, v uint32) {
	a.emitRex(false, 0, 0, uint8(d))
	a.emitBytes(0xb8 | byte(d&7))
	a.emit32(v)
}

// Const64 is d = v.
func (a *scalars) Const64(d Reg, v uint64) {
	a.emitRex(true, 0, 0, uint8(d))
	a.emitBytes(0xb8 | byte(d&7))
	a.emit32(uint32(v))
	a.emit32(uint32(v >> 32))
}

// AddMemory64 adds a constant to 8 bytes of memory.
func (a *scalars) AddMemory64(m Mem, v int32) {
	a.emitWithMemory(true, 0, m, 0x81)
	a.emit32(uint32(v))
}

// CompareMemory64 sets the flags for 8 bytes of memory minus a constant.
func (a *scalars) CompareMemory64(m Mem, v int8) {
	a.emitWithMemory(true, 7, m, 0x83)
	a.emitBytes(byte(v))
}

// CompareMemory32 sets the flags for 4 bytes of memory minus a constant.
func (a *scalars) CompareMemory32(m Mem, v uint32) {
	a.emitWithMemory(false, 7, m, 0x81)
	a.emit32(v)
}

// CompareMemory8 sets the flags for a byte of memory minus a constant.
func (a *scalars) CompareMemory8(m Mem, v byte) {
	a.emitWithMemory(false, 7, m, 0x80)
	a.emitBytes(v)
}

// Add64 is d += s.
func (a *scalars) Add64(d, s Reg) { a.emitWithRegisters(true, uint8(s), uint8(d), 0x01) }

// Sub64 is d -= s.
func (a *scalars) Sub64(d, s Reg) { a.emitWithRegisters(true, uint8(s), uint8(d), 0x29) }

// And32 is d &= s.
func (a *scalars) And32(d, s Reg) { a.emitWithRegisters(false, uint8(s), uint8(d), 0x21) }

// SubMemory64 is d -= 8 bytes of memory.
func (a *scalars) SubMemory64(d Reg, m Mem) { a.emitWithMemory(true, uint8(d), m, 0x2b) }

// CompareRegs64 sets the flags for x - y.
func (a *scalars) CompareRegs64(x, y Reg) { a.emitWithRegisters(true, uint8(y), uint8(x), 0x39) }

// MoveIfAbove64 is d = s if the comparison before found more, unsigned.
func (a *scalars) MoveIfAbove64(d, s Reg) { a.emitWithRegisters(true, uint8(d), uint8(s), 0x0f, 0x47) }

// SignExtend32 is d = the lower half of s, with its sign.
func (a *scalars) SignExtend32(d, s Reg) { a.emitWithRegisters(true, uint8(d), uint8(s), 0x63) }

// StoreNarrow writes the lowest size bytes of a register, 1 or 2. Of registers before R8, the first four have a lowest byte.
func (a *scalars) StoreNarrow(m Mem, s Reg, size int) {
	if size == 2 {
		a.emitBytes(0x66)
		a.emitWithMemory(false, uint8(s), m, 0x89)
		return
	}
	a.emitWithMemory(false, uint8(s), m, 0x88)
}

// ZeroExtend16 is d = the lowest 16 bits of s.
func (a *scalars) ZeroExtend16(d, s Reg) { a.emitWithRegisters(false, uint8(d), uint8(s), 0x0f, 0xb7) }

// Or32 is d |= s.
func (a *scalars) Or32(d, s Reg) { a.emitWithRegisters(false, uint8(s), uint8(d), 0x09) }

// Xor32 is d ^= s.
func (a *scalars) Xor32(d, s Reg) { a.emitWithRegisters(false, uint8(s), uint8(d), 0x31) }

// AndMemory32 is d &= 4 bytes of memory.
func (a *scalars) AndMemory32(d Reg, m Mem) { a.emitWithMemory(false, uint8(d), m, 0x23) }

// AddFromMemory32 is d += 4 bytes of memory.
func (a *scalars) AddFromMemory32(d Reg, m Mem) { a.emitWithMemory(false, uint8(d), m, 0x03) }

// OrMemory32 is d |= 4 bytes of memory.
func (a *scalars) OrMemory32(d Reg, m Mem) { a.emitWithMemory(false, uint8(d), m, 0x0b) }

// XorMemory32 is d ^= 4 bytes of memory.
func (a *scalars) XorMemory32(d Reg, m Mem) { a.emitWithMemory(false, uint8(d), m, 0x33) }

// MoveMemoryIf32 is d = 4 bytes of memory if a condition holds.
func (a *scalars) MoveMemoryIf32(c Cond, d Reg, m Mem) {
	a.emitWithMemory(false, uint8(d), m, 0x0f, 0x40|byte(c))
}

// CompareExchange32 writes s to 4 bytes of memory if they equal EAX, else it loads them into EAX: at once for all
// cores.
func (a *scalars) CompareExchange32(m Mem, s Reg) {
	a.emitBytes(0xf0)
	a.emitWithMemory(false, uint8(s), m, 0x0f, 0xb1)
}

// Move32 is d = s, 32 bits.
func (a *scalars) Move32(d, s Reg) { a.emitWithRegisters(false, uint8(s), uint8(d), 0x89) }

// Not32 inverts the bits of d.
func (a *scalars) Not32(d Reg) { a.emitWithRegisters(false, 2, uint8(d), 0xf7) }

// Test32 sets the flags for a & b.
func (a *scalars) Test32(x, y Reg) { a.emitWithRegisters(false, uint8(y), uint8(x), 0x85) }

// CompareRegMemory32 sets the flags for d minus 4 bytes of memory.
func (a *scalars) CompareRegMemory32(d Reg, m Mem) { a.emitWithMemory(false, uint8(d), m, 0x3b) }

// Compare32 sets the flags for x - v, of 32 bits.
func (a *scalars) Compare32(x Reg, v int8) {
	a.emitWithRegisters(false, 7, uint8(x), 0x83)
	a.emitBytes(byte(v))
}

// CompareRegs32 sets the flags for x - y, of 32 bits.
func (a *scalars) CompareRegs32(x, y Reg) { a.emitWithRegisters(false, uint8(y), uint8(x), 0x39) }

// ShiftRight32 and ShiftRight64 shift right by a constant, without sign.
func (a *scalars) ShiftRight32(d Reg, n uint8) {
	a.emitWithRegisters(false, 5, uint8(d), 0xc1)
	a.emitBytes(n)
}

// ShiftRight64 is d >>= n, without sign.
func (a *scalars) ShiftRight64(d Reg, n uint8) {
	a.emitWithRegisters(true, 5, uint8(d), 0xc1)
	a.emitBytes(n)
}

// ShiftLeft64 is d <<= n.
func (a *scalars) ShiftLeft64(d Reg, n uint8) {
	a.emitWithRegisters(true, 4, uint8(d), 0xc1)
	a.emitBytes(n)
}

// TrailingZeros32 is d = the number of zero bits below the lowest one of s.
func (a *scalars) TrailingZeros32(d, s Reg) {
	a.emitBytes(0xf3)
	a.emitWithRegisters(false, uint8(d), uint8(s), 0x0f, 0xbc)
}

// Jump goes to a label.
func (a *scalars) Jump(l Label) {
	a.emitBytes(0xe9)
	a.emitLabel(l)
}

// JumpIf goes to a label if a condition holds.
func (a *scalars) JumpIf(c Cond, l Label) {
	a.emitBytes(0x0f, 0x80|byte(c))
	a.emitLabel(l)
}

// JumpTo goes to the address in a register.
func (a *scalars) JumpTo(r Reg) {
	a.emitRex(false, 0, 0, uint8(r))
	a.emitBytes(0xff, 0xe0|byte(r&7))
}

// Call calls the code at a label.
func (a *scalars) Call(l Label) {
	a.emitBytes(0xe8)
	a.emitLabel(l)
}

// Return ends the code that was called.
func (a *scalars) Return() { a.emitBytes(0xc3) }
