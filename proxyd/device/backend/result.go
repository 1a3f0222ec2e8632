// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"fmt"
)

// Result is the driver's number of an error, CUresult.
type Result uint32

// The results that backends return, with the driver's meaning.
const (
	Success                  Result = 0
	InvalidValue             Result = 1
	OutOfMemory              Result = 2
	InvalidDevice            Result = 101
	InvalidImage             Result = 200
	InvalidContext           Result = 201
	AlreadyMapped            Result = 208
	NoBinaryForGPU           Result = 209
	NotMapped                Result = 211
	UnsupportedLimit         Result = 215
	InvalidPTX               Result = 218
	UnsupportedPTXVersion    Result = 222
	InvalidHandle            Result = 400
	IllegalState             Result = 401
	NotFound                 Result = 500
	NotReady                 Result = 600
	IllegalAddress           Result = 700
	LaunchOutOfResources     Result = 701
	PeerAccessAlreadyEnabled Result = 704
	PeerAccessNotEnabled     Result = 705
	ContextIsDestroyed       Result = 709
	Assert                   Result = 710
	HostMemoryNotRegistered  Result = 713
	HardwareStackError       Result = 714
	IllegalInstruction       Result = 715
	MisalignedAddress        Result = 716
	InvalidAddressSpace      Result = 717
	InvalidPC                Result = 718
	LaunchFailed             Result = 719
	CooperativeLaunchTooBig  Result = 720
	NotSupported             Result = 801
	GraphExecUpdateFailure   Result = 910
	InvalidClusterSize       Result = 912
	Unknown                  Result = 999
)

// resultNames has the driver's names of the results; results that a context keeps as its fault are
// sticky.
var resultNames = map[Result]struct {
	name   string
	sticky bool
}{
	Success:                  {"CUDA_SUCCESS", false},
	InvalidValue:             {"CUDA_ERROR_INVALID_VALUE", false},
	OutOfMemory:              {"CUDA_ERROR_OUT_OF_MEMORY", false},
	InvalidDevice:            {"CUDA_ERROR_INVALID_DEVICE", false},
	InvalidImage:             {"CUDA_ERROR_INVALID_IMAGE", false},
	InvalidContext:           {"CUDA_ERROR_INVALID_CONTEXT", false},
	AlreadyMapped:            {"CUDA_ERROR_ALREADY_MAPPED", false},
	NoBinaryForGPU:           {"CUDA_ERROR_NO_BINARY_FOR_GPU", false},
	NotMapped:                {"CUDA_ERROR_NOT_MAPPED", false},
	UnsupportedLimit:         {"CUDA_ERROR_UNSUPPORTED_LIMIT", false},
	InvalidPTX:               {"CUDA_ERROR_INVALID_PTX", false},
	UnsupportedPTXVersion:    {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", false},
	InvalidHandle:            {"CUDA_ERROR_INVALID_HANDLE", false},
	IllegalState:             {"CUDA_ERROR_ILLEGAL_STATE", false},
	NotFound:                 {"CUDA_ERROR_NOT_FOUND", false},
	NotReady:                 {"CUDA_ERROR_NOT_READY", false},
	IllegalAddress:           {"CUDA_ERROR_ILLEGAL_ADDRESS", true},
	LaunchOutOfResources:     {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", false},
	PeerAccessAlreadyEnabled: {"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", false},
	PeerAccessNotEnabled:     {"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", false},
	ContextIsDestroyed:       {"CUDA_ERROR_CONTEXT_IS_DESTROYED", false},
	Assert:                   {"CUDA_ERROR_ASSERT", true},
	HostMemoryNotRegistered:  {"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", false},
	HardwareStackError:       {"CUDA_ERROR_HARDWARE_STACK_ERROR", true},
	IllegalInstruction:       {"CUDA_ERROR_ILLEGAL_INSTRUCTION", true},
	MisalignedAddress:        {"CUDA_ERROR_MISALIGNED_ADDRESS", true},
	InvalidAddressSpace:      {"CUDA_ERROR_INVALID_ADDRESS_SPACE", true},
	InvalidPC:                {"CUDA_ERROR_INVALID_PC", true},
	LaunchFailed:             {"CUDA_ERROR_LAUNCH_FAILED", true},
	CooperativeLaunchTooBig:  {"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", false},
	NotSupported:             {"CUDA_ERROR_NOT_SUPPORTED", false},
	GraphExecUpdateFailure:   {"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", false},
	InvalidClusterSize:       {"CUDA_ERROR_INVALID_CLUSTER_SIZE", false},
	Unknown:                  {"CUDA_ERROR_UNKNOWN", false},
}

// Error is the driver's name of the number.
func (r Result) Error() string {
	if n, ok := resultNames[r]; ok {
		return n.name
	}
	return fmt.Sprintf("CUDA error %d", uint32(r))
}

// Sticky tells whether a context that has seen the error keeps the error for ever.
func (r Result) Sticky() bool { return resultNames[r].sticky }

// ResultOf is the Result that err wraps: Success for nil, Unknown if err wraps no Result.
func ResultOf(err error) Result {
	var r Result
	switch {
	case err == nil:
		return Success
	case errors.As(err, &r):
		return r
	default:
		return Unknown
	}
}
