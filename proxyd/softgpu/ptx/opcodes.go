// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"maps"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// opcode is a PTX instruction: how to lower the instruction, or why the instruction is refused.
type opcode struct {
	lower   func(l *lowerer)
	mods    string // modifiers apart from types; a trailing * stands for any end
	control bool   // never guarded itself: a guard branches around the instruction
	refused string
}

// The modifiers that many share.
const (
	modRound  = " rn rz rm rp ftz sat approx full "
	modAccess = " weak relaxed acquire release volatile mmio cta cluster gpu sys global shared shared::cta shared::cluster local param param::entry param::func const v2 v4 v8 nc" +
		" ca cg cs lu cv wb wt L1::* L2::* level::* unified "
	modCompare = " eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz "
	modVideo   = " sat add min max clamp wrap shr7 shr15 po " + modCompare
)

const (
	noReferences = "references to textures and surfaces are not supported; use their objects"
	noTellStore  = "stores and reductions that are told to an mbarrier are not supported"
	noTensorMap  = "tensor maps are not supported"
	noWgmma      = "matrix products of warp groups are not supported"
	noTcgen      = "matrix products in tensor memory are not supported"
	noCluster    = "clusters of more than one block are not supported"
)

// opcodes are the instructions of all areas. The lowering functions look into this table, so it is filled by init, when the
// areas' tables have these functions.
var opcodes = map[string]*opcode{}

// opcodeAreas are the tables of the areas. No instruction is in two of them.
var opcodeAreas = []map[string]*opcode{
	integerOpcodes, floatOpcodes, logicOpcodes, dataOpcodes, matrixOpcodes,
	controlOpcodes, threadOpcodes, videoOpcodes, simdOpcodes(), textureOpcodes,
}

func init() {
	for _, area := range opcodeAreas {
		maps.Copy(opcodes, area)
	}
}

// simdOpcodes are the video instructions on several parts of a word.
func simdOpcodes() map[string]*opcode {
	all := map[string]*opcode{}
	for _, base := range []string{"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"} {
		for _, n := range []string{"2", "4"} {
			all[base+n] = &opcode{lower: lowerSimd, mods: modVideo}
		}
	}
	return all
}

// integerOpcodes are the instructions on integers.
var integerOpcodes = map[string]*opcode{
	"add":   {lower: lowerAdd, mods: modRound + "cc f32x2"},
	"addc":  {lower: lowerAdd, mods: "cc"},
	"sub":   {lower: lowerAdd, mods: modRound + "cc f32x2"},
	"subc":  {lower: lowerAdd, mods: "cc"},
	"mul":   {lower: lowerMul, mods: modRound + "hi lo wide f32x2"},
	"mad":   {lower: lowerMad, mods: modRound + "hi lo wide cc"},
	"madc":  {lower: lowerMad, mods: "hi lo cc"},
	"mul24": {lower: lowerMul24, mods: "hi lo"},
	"mad24": {lower: lowerMul24, mods: "hi lo sat"},
	"sad":   {lower: lowerSad},
	"div":   {lower: lowerDivRem, mods: modRound},
	"rem":   {lower: lowerDivRem},
	"abs":   {lower: lowerAbsNeg, mods: "ftz"},
	"neg":   {lower: lowerAbsNeg, mods: "ftz"},
	"min":   {lower: lowerInt2, mods: "ftz NaN xorsign abs relu"},
	"max":   {lower: lowerInt2, mods: "ftz NaN xorsign abs relu"},
	"popc":  {lower: lowerBits1},
	"clz":   {lower: lowerBits1},
	"bfind": {lower: lowerBits1, mods: "shiftamt"},
	"brev":  {lower: lowerBits1},
	"fns":   {lower: lowerFns},
	"bfe":   {lower: lowerBfe},
	"bfi":   {lower: lowerBfi},
	"bmsk":  {lower: lowerBmsk, mods: "clamp wrap"},
	"szext": {lower: lowerSzext, mods: "clamp wrap"},
	"dp4a":  {lower: lowerDp},
	"dp2a":  {lower: lowerDp, mods: "lo hi"},
}

// floatOpcodes are the instructions on floating-point numbers alone.
var floatOpcodes = map[string]*opcode{
	"fma":      {lower: lowerFma, mods: modRound + "relu oob f32x2"},
	"rcp":      {lower: lowerRootRcp, mods: modRound},
	"sqrt":     {lower: lowerRootRcp, mods: modRound},
	"rsqrt":    {lower: lowerApprox, mods: "approx ftz"},
	"sin":      {lower: lowerApprox, mods: "approx ftz"},
	"cos":      {lower: lowerApprox, mods: "approx ftz"},
	"lg2":      {lower: lowerApprox, mods: "approx ftz"},
	"ex2":      {lower: lowerApprox, mods: "approx ftz"},
	"tanh":     {lower: lowerApprox, mods: "approx ftz"},
	"testp":    {lower: lowerTestp, mods: "finite infinite number notanumber normal subnormal"},
	"copysign": {lower: lowerCopysign},
}

// logicOpcodes are comparisons, logic and shifts.
var logicOpcodes = map[string]*opcode{
	"set":  {lower: lowerSet, mods: modCompare},
	"setp": {lower: lowerSetp, mods: modCompare},
	"selp": {lower: lowerSelp},
	"slct": {lower: lowerSlct, mods: "ftz"},
	"and":  {lower: lowerLogic},
	"or":   {lower: lowerLogic},
	"xor":  {lower: lowerLogic},
	"not":  {lower: lowerNot},
	"cnot": {lower: lowerNot},
	"lop3": {lower: lowerLop3, mods: "or and"},
	"shl":  {lower: lowerShift},
	"shr":  {lower: lowerShift},
	"shf":  {lower: lowerShf, mods: "l r clamp wrap"},
	"prmt": {lower: lowerPrmt, mods: "f4e b4e rc8 ecl ecr rc16"},
}

// dataOpcodes move and convert data.
var dataOpcodes = map[string]*opcode{
	"mov":            {lower: lowerMov, mods: "v2 v4 v8"},
	"ld":             {lower: lowerLd, mods: modAccess},
	"ldu":            {lower: lowerLd, mods: modAccess},
	"st":             {lower: lowerSt, mods: modAccess},
	"cvt":            {lower: lowerCvt, mods: "rn rz rm rp rna rni rzi rmi rpi ftz sat relu satfinite pack"},
	"cvta":           {lower: lowerCvta, mods: "to global shared shared::cta shared::cluster local const param param::entry"},
	"isspacep":       {lower: lowerIsspacep, mods: "global shared shared::cta shared::cluster local const param param::entry"},
	"prefetch":       {lower: lowerNothing, mods: "global local const param L1 L2 L2::* tensormap"},
	"prefetchu":      {lower: lowerNothing, mods: "L1"},
	"applypriority":  {lower: lowerNothing, mods: "global L2::*"},
	"discard":        {lower: lowerNothing, mods: "global L2 L2::*"},
	"createpolicy":   {lower: lowerPolicy, mods: "fractional range cvt global L2 L1::* L2::* level::*"},
	"cp":             {lower: lowerCp, mods: "async ca cg shared shared::cta global L2::* bulk* mbarrier* commit_group wait_group wait_all *"},
	"ldmatrix":       {lower: lowerLdmatrix, mods: "sync aligned m8n8 x1 x2 x4 trans shared shared::cta *"},
	"stmatrix":       {lower: lowerStmatrix, mods: "sync aligned m8n8 x1 x2 x4 trans shared shared::cta *"},
	"movmatrix":      {lower: lowerMovmatrix, mods: "sync aligned m8n8 trans"},
	"alloca":         {lower: lowerAlloca},
	"stacksave":      {lower: lowerStack},
	"stackrestore":   {lower: lowerStack},
	"getctarank":     {lower: lowerGetctarank, mods: "shared::cluster"},
	"mapa":           {lower: lowerMapa, mods: "shared::cluster"},
	"multimem":       {refused: "multicast memory is not supported"},
	"tensormap":      {refused: noTensorMap},
	"griddepcontrol": {lower: lowerNothing, mods: "launch_dependents wait"},
}

// matrixOpcodes are the instructions on matrices of a warp.
var matrixOpcodes = map[string]*opcode{
	"mma":     {lower: lowerMma, mods: "sync aligned row col satfinite xor and popc *"},
	"wmma":    {lower: lowerWmma, mods: "load store mma a b c d sync aligned row col satfinite global shared shared::cta *"},
	"wgmma":   {refused: noWgmma},
	"tcgen05": {refused: noTcgen},
}

// controlOpcodes say which instruction is next.
var controlOpcodes = map[string]*opcode{
	"bra":       {lower: lowerBra, mods: "uni"},
	"brx":       {lower: lowerBrx, mods: "idx uni", control: true},
	"call":      {lower: lowerCall, mods: "uni", control: true},
	"ret":       {lower: lowerRet, mods: "uni"},
	"exit":      {lower: lowerRet},
	"trap":      {lower: lowerTrap},
	"brkpt":     {lower: lowerTrap},
	"nanosleep": {lower: lowerNanosleep, control: true},
	"pmevent":   {lower: lowerNothing, mods: "mask"},
	"setmaxnreg": {
		lower: lowerNothing, mods: "inc dec sync aligned",
	},
}

// threadOpcodes order, join and compare threads.
var threadOpcodes = map[string]*opcode{
	"bar":        {lower: lowerBar, mods: "sync arrive red popc and or cta warp", control: true},
	"barrier":    {lower: lowerBar, mods: "sync arrive red popc and or cta cluster aligned wait acquire release relaxed", control: true},
	"membar":     {lower: lowerFence, mods: "cta gl sys proxy*"},
	"fence":      {lower: lowerFence, mods: "sc acq_rel acquire release cta cluster gpu sys proxy* mbarrier_init *"},
	"atom":       {lower: lowerAtom, mods: modAccess + "and or xor exch cas inc dec add min max sem noftz acq_rel async* L2::* "},
	"red":        {lower: lowerAtom, mods: modAccess + "and or xor inc dec add min max noftz acq_rel async* L2::* "},
	"vote":       {lower: lowerVote, mods: "sync all any uni ballot", control: true},
	"match":      {lower: lowerMatch, mods: "sync all any", control: true},
	"activemask": {lower: lowerActivemask},
	"redux":      {lower: lowerRedux, mods: "sync add and or xor min max abs NaN", control: true},
	"shfl":       {lower: lowerShfl, mods: "sync up down bfly idx", control: true},
	"elect":      {lower: lowerElect, mods: "sync", control: true},
	"mbarrier": {
		lower: lowerMbarrier, mods: "init inval arrive arrive_drop expect_tx complete_tx test_wait try_wait pending_count noComplete parity " +
			"acquire release relaxed cta cluster shared shared::cta shared::cluster",
	},
	"clusterlaunchcontrol": {
		refused: noCluster,
	},
}

// videoOpcodes are the video instructions, but for those on several parts of a word.
var videoOpcodes = map[string]*opcode{
	"vadd":     {lower: lowerVideo, mods: modVideo},
	"vsub":     {lower: lowerVideo, mods: modVideo},
	"vabsdiff": {lower: lowerVideo, mods: modVideo},
	"vmin":     {lower: lowerVideo, mods: modVideo},
	"vmax":     {lower: lowerVideo, mods: modVideo},
	"vshl":     {lower: lowerVideo, mods: modVideo},
	"vshr":     {lower: lowerVideo, mods: modVideo},
	"vmad":     {lower: lowerVmad, mods: modVideo},
	"vset":     {lower: lowerVset, mods: modVideo},
}

// textureOpcodes are the instructions on textures and surfaces.
var textureOpcodes = map[string]*opcode{
	"tex":     {lower: lowerTex, mods: "*"},
	"tld4":    {refused: "gathers of textures are not supported"},
	"txq":     {lower: lowerTxq, mods: "*"},
	"istypep": {refused: noReferences},
	"suld":    {lower: lowerSuld, mods: "*"},
	"sust":    {lower: lowerSust, mods: "*"},
	"sured":   {refused: "reductions to surfaces are not supported"},
	"suq":     {lower: lowerTxq, mods: "*"},
}

// allowsModifier reports whether the opcode may bear a modifier that is no type.
func (o *opcode) allowsModifier(mod string) bool {
	for _, m := range strings.Fields(o.mods) {
		if m == mod || strings.HasSuffix(m, "*") && strings.HasPrefix(mod, m[:len(m)-1]) {
			return true
		}
	}
	return false
}

// refusedModifier gives the reason for which a form is refused, or "".
func refusedModifier(mod string) string {
	switch {
	case strings.HasPrefix(mod, "bulk"), strings.HasPrefix(mod, "tensor"):
		return noTensorMap
	case strings.HasPrefix(mod, "mbarrier"), mod == "async":
		return noTellStore
	case strings.HasPrefix(mod, "shared::cluster"), mod == "cluster":
		return noCluster
	case strings.HasPrefix(mod, "e2m") || strings.HasPrefix(mod, "e3m") || strings.HasPrefix(mod, "ue8m0"), mod == "rs":
		return "this conversion is not supported"
	}
	return ""
}

// lowerPolicy is createpolicy: caches are not modelled, so any value serves.
func lowerPolicy(l *lowerer) {
	l.emitMove(types.B64, l.resultRef(types.B64), l.constantRef(types.Class64, 0))
}
