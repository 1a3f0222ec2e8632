// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Types that the table of calls does not hold, for they have unions and pointers of the program in them. gen_cuda.h has them. */
#ifndef CUDA_STRUCTS_H
#define CUDA_STRUCTS_H

/* C's enumerations are ints here, all of them. */
typedef int CUdevice_attribute;
typedef int CUfunction_attribute;
typedef int CUpointer_attribute;
typedef int CUmemorytype;
typedef int CUlimit;
typedef int CUctx_flags;
typedef int CUfunc_cache;
typedef int CUsharedconfig;
typedef int CUcomputemode;
typedef int CUdevice_P2PAttribute;
typedef int CUmemAllocationType;
typedef int CUmemAllocationHandleType;
typedef int CUmemLocationType;
typedef int CUmemAllocationGranularity_flags;
typedef int CUmemAccess_flags;
typedef int CUmemPool_attribute;
typedef int CUgraphMem_attribute;
typedef int CUstreamBatchMemOpType;
typedef int CUstreamCaptureStatus;
typedef int CUstreamCaptureMode;
typedef int CUjit_option;
typedef int CUjitInputType;
typedef int CUlibraryOption;
typedef int CUmoduleLoadingMode;
typedef int CUfunctionLoadingState;
typedef int CUlaunchAttributeID;
typedef int CUdriverProcAddressQueryResult;
typedef int CUgraphNodeType;
typedef int CUgraphConditionalNodeType;
typedef int CUgraphInstantiateResult;
typedef int CUgraphExecUpdateResult;

typedef unsigned int cuuint32_t;
typedef unsigned long long cuuint64_t;

typedef void (*CUhostFn)(void *user);
typedef void (*CUstreamCallback)(CUstream stream, CUresult status, void *user);
typedef size_t (*CUoccupancyB2DSize)(int block);

typedef struct {
	void *base_ptr;
	size_t num_bytes;
	float hitRatio;
	int hitProp;
	int missProp;
} CUaccessPolicyWindow;

typedef union {
	char pad[64];
	unsigned long long word[8];
	CUaccessPolicyWindow accessPolicyWindow;
	int cooperative;
	int syncPolicy;
	struct {
		unsigned int x, y, z;
	} clusterDim;
	int clusterSchedulingPolicyPreference;
	int programmaticStreamSerializationAllowed;
	struct {
		CUevent event;
		int flags;
		int triggerAtBlockStart;
	} programmaticEvent;
	struct {
		CUevent event;
		int flags;
	} launchCompletionEvent;
	int priority;
	struct {
		unsigned char default_, remote;
	} memSyncDomainMap;
	int memSyncDomain;
	unsigned int sharedMemCarveout;
} CUlaunchAttributeValue;
_Static_assert(sizeof(CUlaunchAttributeValue) == 64, "CUlaunchAttributeValue");

typedef struct {
	CUlaunchAttributeID id;
	char pad[4];
	CUlaunchAttributeValue value;
} CUlaunchAttribute;
_Static_assert(sizeof(CUlaunchAttribute) == 72, "CUlaunchAttribute");
typedef CUlaunchAttributeValue CUstreamAttrValue;
typedef CUlaunchAttributeValue CUkernelNodeAttrValue;

typedef struct {
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	CUstream hStream;
	CUlaunchAttribute *attrs;
	unsigned int numAttrs;
} CUlaunchConfig;
_Static_assert(sizeof(CUlaunchConfig) == 56, "CUlaunchConfig");

typedef struct {
	CUstreamBatchMemOpType operation;
	CUdeviceptr address;
	union {
		cuuint32_t value;
		cuuint64_t value64;
	};
	unsigned int flags;
	CUdeviceptr alias;
} CUstreamMemOpValueParams;

typedef union {
	CUstreamBatchMemOpType operation;
	CUstreamMemOpValueParams waitValue;
	CUstreamMemOpValueParams writeValue;
	struct {
		CUstreamBatchMemOpType operation;
		unsigned int flags;
	} flushRemoteWrites, memoryBarrier;
	cuuint64_t pad[6];
} CUstreamBatchMemOpParams;
_Static_assert(sizeof(CUstreamBatchMemOpParams) == 48, "CUstreamBatchMemOpParams");

typedef struct {
	CUfunction func;
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	void **kernelParams;
	void **extra;
	CUkernel kern;
	CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;
_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 72, "CUDA_KERNEL_NODE_PARAMS");

typedef struct {
	CUhostFn fn;
	void *userData;
} CUDA_HOST_NODE_PARAMS;

typedef struct {
	CUmemPoolProps poolProps;
	const CUmemAccessDesc *accessDescs;
	size_t accessDescCount;
	size_t bytesize;
	CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;
_Static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == 120, "CUDA_MEM_ALLOC_NODE_PARAMS");

typedef struct {
	int flags;
	int reserved;
	CUcontext copyCtx;
	CUDA_MEMCPY3D copyParams;
} CUDA_MEMCPY_NODE_PARAMS;

typedef struct {
	CUdeviceptr dst;
	size_t pitch;
	unsigned int value;
	unsigned int elementSize;
	size_t width;
	size_t height;
	CUcontext ctx;
} CUDA_MEMSET_NODE_PARAMS_v2;

typedef struct {
	CUgraphConditionalHandle handle;
	CUgraphConditionalNodeType type;
	unsigned int size;
	CUgraph *phGraph_out;
	CUcontext ctx;
} CUDA_CONDITIONAL_NODE_PARAMS;

/* The parameters of cuGraphAddNode. */
typedef struct {
	CUgraphNodeType type;
	int reserved0[3];
	union {
		long long reserved1[29];
		CUDA_KERNEL_NODE_PARAMS kernel;
		CUDA_MEMCPY_NODE_PARAMS memcpy;
		CUDA_MEMSET_NODE_PARAMS_v2 memset;
		CUDA_HOST_NODE_PARAMS host;
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;
		struct {
			CUdeviceptr dptr;
		} free;
		struct {
			CUgraph graph;
		} graph;
		struct {
			CUevent event;
		} eventWait, eventRecord;
		CUDA_CONDITIONAL_NODE_PARAMS conditional;
	};
	long long reserved2;
} CUgraphNodeParams;
_Static_assert(sizeof(CUgraphNodeParams) == 256, "CUgraphNodeParams");

#endif
