// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package amd64

import (
	"bufio"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// instructions are the instructions that the tests encode, by their text in Intel's syntax.
var instructions = map[string]func(a *Assembler){
	"mov rax, QWORD PTR [rbx+0x10]":           func(a *Assembler) { a.Load64(RAX, At(RBX, 16)) },
	"mov r13, QWORD PTR [r12]":                func(a *Assembler) { a.Load64(R13, At(R12, 0)) },
	"mov ecx, DWORD PTR [r13+0x0]":            func(a *Assembler) { a.Load32(RCX, At(R13, 0)) },
	"mov edx, DWORD PTR [r11+0x1234]":         func(a *Assembler) { a.Load32(RDX, At(R11, 0x1234)) },
	"movzx eax, BYTE PTR [rcx+0x1]":           func(a *Assembler) { a.LoadNarrow(RAX, At(RCX, 1), 1, false) },
	"movsx eax, WORD PTR [r9+0x2]":            func(a *Assembler) { a.LoadNarrow(RAX, At(R9, 2), 2, true) },
	"mov QWORD PTR [rdi+0x8], r15":            func(a *Assembler) { a.Store64(At(RDI, 8), R15) },
	"mov DWORD PTR [rdi+0x8], eax":            func(a *Assembler) { a.Store32(At(RDI, 8), RAX) },
	"mov DWORD PTR [rdi+0x4], 0x7b":           func(a *Assembler) { a.StoreConst32(At(RDI, 4), 123) },
	"mov BYTE PTR [rdi+0x4], 0x1":             func(a *Assembler) { a.StoreConst8(At(RDI, 4), 1) },
	"lea rax, [rax+rdx*4+0x40]":               func(a *Assembler) { a.Address(RAX, Mem{Base: RAX, Index: RDX, Scale: 4, Disp: 64}) },
	"mov eax, 0xdeadbeef":                     func(a *Assembler) { a.Const32(RAX, 0xdeadbeef) },
	"movabs r10, 0x123456789abcdef":           func(a *Assembler) { a.Const64(R10, 0x123456789abcdef) },
	"cmp QWORD PTR [rdi+0x18], 0x1":           func(a *Assembler) { a.CompareMemory64(At(RDI, 24), 1) },
	"add rax, r15":                            func(a *Assembler) { a.Add64(RAX, R15) },
	"sub rcx, rdx":                            func(a *Assembler) { a.Sub64(RCX, RDX) },
	"and eax, ecx":                            func(a *Assembler) { a.And32(RAX, RCX) },
	"or eax, r9d":                             func(a *Assembler) { a.Or32(RAX, R9) },
	"xor eax, ecx":                            func(a *Assembler) { a.Xor32(RAX, RCX) },
	"and eax, DWORD PTR [rdi+0x20]":           func(a *Assembler) { a.AndMemory32(RAX, At(RDI, 32)) },
	"cmp eax, DWORD PTR [rdi+0x20]":           func(a *Assembler) { a.CompareRegMemory32(RAX, At(RDI, 32)) },
	"add r12d, DWORD PTR [rdi+rcx*4+0x80]":    func(a *Assembler) { a.AddFromMemory32(R12, lane) },
	"or r12d, DWORD PTR [rdi+rcx*4+0x80]":     func(a *Assembler) { a.OrMemory32(R12, lane) },
	"xor r12d, DWORD PTR [rdi+rcx*4+0x80]":    func(a *Assembler) { a.XorMemory32(R12, lane) },
	"cmovae r12d, DWORD PTR [rdi+rcx*4+0x80]": func(a *Assembler) { a.MoveMemoryIf32(AboveOrEqual, R12, lane) },
	"cmovge eax, DWORD PTR [r15]":             func(a *Assembler) { a.MoveMemoryIf32(GreaterOrEqual, RAX, At(R15, 0)) },
	"lock cmpxchg DWORD PTR [r15], r12d":      func(a *Assembler) { a.CompareExchange32(At(R15, 0), R12) },
	"mov r8d, eax":                            func(a *Assembler) { a.Move32(R8, RAX) },
	"sub rcx, QWORD PTR [rax]":                func(a *Assembler) { a.SubMemory64(RCX, At(RAX, 0)) },
	"cmp rdx, rcx":                            func(a *Assembler) { a.CompareRegs64(RDX, RCX) },
	"cmova rdx, rcx":                          func(a *Assembler) { a.MoveIfAbove64(RDX, RCX) },
	"movsxd rcx, ecx":                         func(a *Assembler) { a.SignExtend32(RCX, RCX) },
	"mov BYTE PTR [rax+r15*1], r12b":          func(a *Assembler) { a.StoreNarrow(Mem{Base: RAX, Index: R15, Scale: 1}, R12, 1) },
	"mov WORD PTR [rax+r15*2], r12w":          func(a *Assembler) { a.StoreNarrow(Mem{Base: RAX, Index: R15, Scale: 2}, R12, 2) },
	"blsr edx, edx":                           func(a *Assembler) { a.DropLowest32(RDX, RDX) },
	"movzx edx, dx":                           func(a *Assembler) { a.ZeroExtend16(RDX, RDX) },
	"kshiftrd k3, k2, 0x8":                    func(a *Assembler) { a.MaskShift(3, 2, 8) },
	"cmp BYTE PTR [rdi+0x7c], 0x0":            func(a *Assembler) { a.CompareMemory8(At(RDI, 124), 0) },
	"cmp DWORD PTR [rdi+0x7c], 0x12345":       func(a *Assembler) { a.CompareMemory32(At(RDI, 124), 0x12345) },
	"add QWORD PTR [rdi+0x7c], 0x12345":       func(a *Assembler) { a.AddMemory64(At(RDI, 124), 0x12345) },
	"not eax":                                 func(a *Assembler) { a.Not32(RAX) },
	"test ecx, eax":                           func(a *Assembler) { a.Test32(RCX, RAX) },
	"cmp eax, 0xffffffff":                     func(a *Assembler) { a.Compare32(RAX, -1) },
	"cmp ecx, r8d":                            func(a *Assembler) { a.CompareRegs32(RCX, R8) },
	"shr eax, 0x10":                           func(a *Assembler) { a.ShiftRight32(RAX, 16) },
	"shr rdx, 0x2":                            func(a *Assembler) { a.ShiftRight64(RDX, 2) },
	"shl rdx, 0x2":                            func(a *Assembler) { a.ShiftLeft64(RDX, 2) },
	"tzcnt ecx, r8d":                          func(a *Assembler) { a.TrailingZeros32(RCX, R8) },
	"jmp r15":                                 func(a *Assembler) { a.JumpTo(R15) },
	"kmovd k7, eax":                           func(a *Assembler) { a.MaskFrom(7, RAX) },
	"kmovd k1, r9d":                           func(a *Assembler) { a.MaskFrom(1, R9) },
	"kmovd edx, k3":                           func(a *Assembler) { a.MaskTo(RDX, 3) },
	"kmovd k2, k5":                            func(a *Assembler) { a.MaskMove(2, 5) },
	"kshiftrd k6, k7, 0x10":                   func(a *Assembler) { a.MaskShift(6, 7, 16) },
	"kortestw k1, k2":                         func(a *Assembler) { a.TestMasks16(1, 2) },
	"kortestb k1, k2":                         func(a *Assembler) { a.TestMasks8(1, 2) },
	"vmovd eax, xmm17":                        func(a *Assembler) { a.MoveLow32(RAX, 17) },
	"vmovq rax, xmm17":                        func(a *Assembler) { a.MoveLow64(RAX, 17) },
	"vmovq r10, xmm27":                        func(a *Assembler) { a.MoveLow64(R10, 27) },
	"vmovd r10d, xmm27":                       func(a *Assembler) { a.MoveLow32(R10, 27) },
	"vpbroadcastd zmm9, r12d":                 func(a *Assembler) { a.BroadcastReg(VPBROADCASTDReg, 9, R12, Options{}) },
	"vpbroadcastq zmm29, rcx":                 func(a *Assembler) { a.BroadcastReg(VPBROADCASTQReg, 29, RCX, Options{}) },
	"vpbroadcastd zmm9{k1}, xmm30":            func(a *Assembler) { a.Op2(VPBROADCASTD, 9, Register(30), Options{Mask: 1}) },
	"vpbroadcastq zmm9, QWORD PTR [rax+rcx*8]": func(a *Assembler) {
		a.Op2(VPBROADCASTQ, 9, Memory(Mem{Base: RAX, Index: RCX, Scale: 8}), Options{})
	},
	"vmovdqu32 zmm1, ZMMWORD PTR [rsi+0x40]":         func(a *Assembler) { a.Op2(VMOVDQU32, 1, Memory(At(RSI, 64)), Options{}) },
	"vmovdqu32 zmm20{k2}, ZMMWORD PTR [r9+0x123]":    func(a *Assembler) { a.Op2(VMOVDQU32, 20, Memory(At(R9, 0x123)), Options{Mask: 2}) },
	"vmovdqu32 ZMMWORD PTR [r12+0x2000]{k3}, zmm30":  func(a *Assembler) { a.Store(VMOVDQU32Store, At(R12, 0x2000), 30, Options{Mask: 3}) },
	"vmovdqu64 ZMMWORD PTR [r8-0x80], zmm7":          func(a *Assembler) { a.Store(VMOVDQU64Store, At(R8, -128), 7, Options{}) },
	"vaddps zmm1, zmm2, zmm3, {rd-sae}":              func(a *Assembler) { a.Op3(VADDPS, 1, 2, Register(3), Options{Round: Down}) },
	"vaddps zmm31, zmm18, zmm29, {rz-sae}":           func(a *Assembler) { a.Op3(VADDPS, 31, 18, Register(29), Options{Round: ToZero}) },
	"vshufi64x2 zmm1, zmm2, zmm3, 0x44":              func(a *Assembler) { a.Op3Imm(VSHUFI64X2, 1, 2, Register(3), 0x44, Options{}) },
	"vshufi32x4 zmm1, zmm2, zmm3, 0x44":              func(a *Assembler) { a.Op3Imm(VSHUFI32X4, 1, 2, Register(3), 0x44, Options{}) },
	"vextracti64x4 ymm4, zmm25, 0x1":                 func(a *Assembler) { a.NarrowTo(VEXTRACTI64, 4, 25, []byte{1}, Options{}) },
	"vinserti64x4 zmm4, zmm25, ymm6, 0x1":            func(a *Assembler) { a.Op3Imm(VINSERTI64, 4, 25, Register(6), 1, Options{}) },
	"vpcompressd zmm2{k1}{z}, zmm3":                  func(a *Assembler) { a.NarrowTo(VPCOMPRESSD, 2, 3, nil, Options{Mask: 1, Zero: true}) },
	"vcvtps2ph ymm2, zmm19, 0x0":                     func(a *Assembler) { a.NarrowTo(VCVTPS2PH, 2, 19, []byte{0}, Options{}) },
	"vpmovdb XMMWORD PTR [rax+0x10]{k1}, zmm3":       func(a *Assembler) { a.Store(VPMOVDB, At(RAX, 16), 3, Options{Mask: 1}) },
	"vpmovdw YMMWORD PTR [rax+0x20], zmm3":           func(a *Assembler) { a.Store(VPMOVDW, At(RAX, 32), 3, Options{}) },
	"vpslld zmm1, zmm2, 0x10":                        func(a *Assembler) { a.ShiftImm(VPSLLD, 1, Register(2), 16, Options{}) },
	"vpsrld zmm17, ZMMWORD PTR [rsi+0x40], 0x10":     func(a *Assembler) { a.ShiftImm(VPSRLD, 17, Memory(At(RSI, 64)), 16, Options{}) },
	"vpsrad zmm1, zmm2, 0x10":                        func(a *Assembler) { a.ShiftImm(VPSRAD, 1, Register(2), 16, Options{}) },
	"vpsllq zmm1, zmm2, 0x10":                        func(a *Assembler) { a.ShiftImm(VPSLLQ, 1, Register(2), 16, Options{}) },
	"vpsrlq zmm1, zmm2, 0x10":                        func(a *Assembler) { a.ShiftImm(VPSRLQ, 1, Register(2), 16, Options{}) },
	"vprord zmm1, zmm2, 0x2":                         func(a *Assembler) { a.ShiftImm(VPRORD, 1, Register(2), 2, Options{}) },
	"vprorq zmm1{k2}{z}, zmm2, 0x2":                  func(a *Assembler) { a.ShiftImm(VPRORQ, 1, Register(2), 2, Options{Mask: 2, Zero: true}) },
	"vpternlogd zmm1, zmm2, zmm3, 0x96":              func(a *Assembler) { a.Op3Imm(VPTERNLOGD, 1, 2, Register(3), 0x96, Options{}) },
	"vpternlogq zmm1, zmm2, zmm3, 0x96":              func(a *Assembler) { a.Op3Imm(VPTERNLOGQ, 1, 2, Register(3), 0x96, Options{}) },
	"vpcmpd k1, zmm2, zmm3, 0x5":                     func(a *Assembler) { a.Compare(VPCMPD, 1, 2, Register(3), NLT, Options{}) },
	"vpcmpuq k6{k1}, zmm2, ZMMWORD PTR [rsi], 0x5":   func(a *Assembler) { a.Compare(VPCMPUQ, 6, 2, Memory(At(RSI, 0)), NLT, Options{Mask: 1}) },
	"vpcmpq k1, zmm2, zmm3, 0x1":                     func(a *Assembler) { a.Compare(VPCMPQ, 1, 2, Register(3), LT, Options{}) },
	"vpcmpud k1, zmm2, zmm3, 0x6":                    func(a *Assembler) { a.Compare(VPCMPUD, 1, 2, Register(3), NLE, Options{}) },
	"vcmpps k1, zmm2, zmm3, 0x3":                     func(a *Assembler) { a.Compare(VCMPPS, 1, 2, Register(3), UnordQ, Options{}) },
	"vcmppd k1, zmm2, zmm3, 0x3":                     func(a *Assembler) { a.Compare(VCMPPD, 1, 2, Register(3), UnordQ, Options{}) },
	"vptestmd k1, zmm2, zmm3":                        func(a *Assembler) { a.TestLanes(VPTESTMD, 1, 2, Register(3), Options{}) },
	"vptestmq k1, zmm2, zmm3":                        func(a *Assembler) { a.TestLanes(VPTESTMQ, 1, 2, Register(3), Options{}) },
	"vptestnmd k1, zmm2, zmm3":                       func(a *Assembler) { a.TestLanes(VPTESTNMD, 1, 2, Register(3), Options{}) },
	"vrndscaleps zmm1, zmm2, 0x8":                    func(a *Assembler) { a.Op2Imm(VRNDSCALEPS, 1, Register(2), 8, Options{}) },
	"vrndscalepd zmm1, zmm2, 0xb":                    func(a *Assembler) { a.Op2Imm(VRNDSCALEPD, 1, Register(2), 11, Options{}) },
	"vgetmantpd zmm1, zmm2, 0x2":                     func(a *Assembler) { a.Op2Imm(VGETMANTPD, 1, Register(2), 2, Options{}) },
	"vpgatherdd zmm1{k1}, DWORD PTR [rax+zmm2*4]":    func(a *Assembler) { a.Op2(VPGATHERDD, 1, Memory(gatherMem(2, 4)), Options{Mask: 1}) },
	"vpgatherdq zmm21{k1}, QWORD PTR [rax+ymm22*8]":  func(a *Assembler) { a.Op2(VPGATHERDQ, 21, Memory(gatherMem(22, 8)), Options{Mask: 1}) },
	"vpscatterdd DWORD PTR [rax+zmm2*4]{k1}, zmm1":   func(a *Assembler) { a.Store(VPSCATTERDD, gatherMem(2, 4), 1, Options{Mask: 1}) },
	"vpscatterdq QWORD PTR [rax+ymm18*8]{k1}, zmm17": func(a *Assembler) { a.Store(VPSCATTERDQ, gatherMem(18, 8), 17, Options{Mask: 1}) },
}

// lane is an element that a register counts.
var lane = Mem{Base: RDI, Index: RCX, Scale: 4, Disp: 0x80}

func gatherMem(v Vec, scale uint8) Mem { return Mem{Base: RAX, Vector: v, Scale: scale, Indexed: true} }

// three are the instructions with three operands of whole registers, two the instructions with two operands.
var (
	three = map[string]Op{
		"vpaddd": VPADDD, "vpaddq": VPADDQ, "vpsubd": VPSUBD, "vpsubq": VPSUBQ, "vpmulld": VPMULLD, "vpmullq": VPMULLQ,
		"vpminub": VPMINUB, "vpmaxub": VPMAXUB, "vpsubb": VPSUBB, "vpmaddubsw": VPMADDUBSW, "vpmaddwd": VPMADDWD,
		"vpmuldq": VPMULDQ, "vpmuludq": VPMULUDQ, "vpandd": VPANDD, "vpandq": VPANDQ, "vpord": VPORD, "vporq": VPORQ,
		"vpxord": VPXORD, "vpxorq": VPXORQ, "vpminud": VPMINUD, "vpminuq": VPMINUQ, "vpminsd": VPMINSD, "vpminsq": VPMINSQ,
		"vpmaxud": VPMAXUD, "vpmaxuq": VPMAXUQ, "vpmaxsd": VPMAXSD, "vpmaxsq": VPMAXSQ,
		"vpsllvd": VPSLLVD, "vpsllvq": VPSLLVQ, "vpsrlvd": VPSRLVD, "vpsrlvq": VPSRLVQ, "vpsravd": VPSRAVD, "vpsravq": VPSRAVQ,
		"vaddps": VADDPS, "vaddpd": VADDPD, "vmulps": VMULPS, "vmulpd": VMULPD, "vsubps": VSUBPS, "vsubpd": VSUBPD,
		"vdivps": VDIVPS, "vdivpd": VDIVPD, "vminps": VMINPS, "vminpd": VMINPD, "vmaxps": VMAXPS, "vmaxpd": VMAXPD,
		"vfmadd231ps": VFMADD231PS, "vfmadd231pd": VFMADD231PD, "vfnmadd231pd": VFNMADD231PD, "vpermt2d": VPERMT2D, "vpermt2q": VPERMT2Q,
		"vpunpckldq": VPUNPCKLDQ, "vpunpckhdq": VPUNPCKHDQ, "vpunpcklqdq": VPUNPCKLQDQ, "vpunpckhqdq": VPUNPCKHQDQ,
		"vscalefpd": VSCALEFPD, "vfmadd213pd": VFMADD213PD, "vpblendmd": VPBLENDMD, "vpblendmq": VPBLENDMQ,
	}
	two = map[string]Op{
		"vpabsd zmm": VPABSD, "vpabsq zmm": VPABSQ, "vplzcntd zmm": VPLZCNTD, "vpopcntd zmm": VPOPCNTD,
		"vsqrtps zmm": VSQRTPS, "vsqrtpd zmm": VSQRTPD, "vgetexppd zmm": VGETEXPPD, "vcvtdq2ps zmm": VCVTDQ2PS,
		"vcvtudq2ps zmm": VCVTUDQ2PS, "vcvtqq2pd zmm": VCVTQQ2PD, "vcvtuqq2pd zmm": VCVTUQQ2PD, "vcvttps2dq zmm": VCVTTPS2DQ,
		"vcvttps2udq zmm": VCVTTPS2UDQ, "vcvtps2dq zmm": VCVTPS2DQ,
		"vcvtqq2ps ymm": VCVTQQ2PS, "vcvtuqq2ps ymm": VCVTUQQ2PS, "vcvtpd2ps ymm": VCVTPD2PS, "vcvttpd2dq ymm": VCVTTPD2DQ,
		"vcvttpd2udq ymm": VCVTTPD2UDQ,
		"vcvtdq2pd":       VCVTDQ2PD, "vcvtudq2pd": VCVTUDQ2PD, "vcvtps2pd": VCVTPS2PD, "vcvtph2ps": VCVTPH2PS,
		"vpmovzxwd": VPMOVZXWD, "vpmovsxwd": VPMOVSXWD, "vpmovzxdq": VPMOVZXDQ, "vpmovsxdq": VPMOVSXDQ,
		"vpmovzxbd": VPMOVZXBD, "vpmovsxbd": VPMOVSXBD,
	}
)

func init() {
	for name, op := range three {
		instructions[name+" zmm9, zmm18, zmm31"] = func(a *Assembler) { a.Op3(op, 9, 18, Register(31), Options{}) }
		instructions[name+" zmm25{k5}, zmm2, ZMMWORD PTR [r8+0x1c0]"] = func(a *Assembler) {
			a.Op3(op, 25, 2, Memory(At(R8, 0x1c0)), Options{Mask: 5})
		}
	}
	for name, op := range two {
		name, d, narrow := strings.TrimSuffix(strings.TrimSuffix(name, " zmm"), " ymm"), "zmm", "ymm"
		switch {
		case two[name+" zmm"] == op:
			narrow = "zmm"
		case two[name+" ymm"] == op:
			d, narrow = "ymm", "zmm"
		case strings.HasSuffix(name, "bd"):
			narrow = "xmm"
		}
		instructions[name+" "+d+"9, "+narrow+"31"] = func(a *Assembler) { a.Op2(op, 9, Register(31), Options{}) }
		size := map[string]string{"xmm": "XMMWORD PTR [rsi+0x10]", "ymm": "YMMWORD PTR [rsi+0x20]", "zmm": "ZMMWORD PTR [rsi+0x40]"}[narrow]
		disp := map[string]int32{"xmm": 16, "ymm": 32, "zmm": 64}[narrow]
		instructions[name+" "+d+"25{k3}, "+size] = func(a *Assembler) { a.Op2(op, 25, Memory(At(RSI, disp)), Options{Mask: 3}) }
	}
}

// TestEncoding compares with the bytes that GNU as makes of the texts: testdata/encodings.txt has a line for each.
func TestEncoding(t *testing.T) {
	f, err := os.Open("testdata/encodings.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	known := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		code, text, _ := strings.Cut(s.Text(), "\t")
		known[text] = code
	}
	for text, emit := range instructions {
		var a Assembler
		emit(&a)
		code, err := a.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(code); got != known[text] {
			t.Errorf("%s is encoded as %s, GNU as makes %q", text, got, known[text])
		}
	}
	if len(known) != len(instructions) {
		t.Errorf("%d encodings are known of %d instructions", len(known), len(instructions))
	}
}

// TestJumps: jumps forwards and backwards, and a label that is never bound.
func TestJumps(t *testing.T) {
	var a Assembler
	back, end, data := a.NewLabel(), a.NewLabel(), a.NewLabel()
	a.Bind(back)
	a.JumpIf(NotEqual, end)
	a.Call(end)
	a.Jump(back)
	a.AddressOf(R9, data)
	a.Bind(end)
	a.Return()
	a.Align(4)
	a.Bind(data)
	a.Data(1, 2)
	code, err := a.Finish()
	if want := "0f8511000000" + "e80c000000" + "e9f0ffffff" + "4c8d0d01000000" + "c3" + "0102"; err != nil || hex.EncodeToString(code) != want {
		t.Errorf("the code is %x, %v; want %s", code, err, want)
	}
	a.Jump(a.NewLabel())
	if _, err := a.Finish(); err == nil {
		t.Error("Finish with a label that was never bound: no error")
	}
}
