	.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
	.amdhsa_code_object_version 6
	.text
	.protected	dma_copy
	.globl	dma_copy
	.p2align	8
	.type	dma_copy,@function
dma_copy:
	s_load_dwordx4 s[0:3], s[4:5], 0x0
	s_load_dwordx2 s[8:9], s[4:5], 0x10
	v_readfirstlane_b32 s10, v0
	v_lshlrev_b32_e32 v0, 2, v0
	v_and_b32_e32 v2, 0xfc, v0
	s_waitcnt lgkmcnt(0)
	s_mov_b64 s[6:7], s[2:3]
	s_mov_b64 s[4:5], s[0:1]
	s_lshl_b32 s0, s10, 4
	s_mov_b32 s6, s8
	s_and_b32 s8, s0, 0xfffffc00
	s_mov_b32 s7, 0x27000
	v_or_b32_e32 v1, s8, v2
	s_mov_b32 m0, s8
	s_nop 0
	buffer_load_dword v1, s[4:7], 0 offen lds
	s_or_b32 s10, s8, 0x100
	v_or_b32_e32 v1, s10, v2
	s_mov_b32 m0, s10
	s_nop 0
	buffer_load_dword v1, s[4:7], 0 offen lds
	s_or_b32 s11, s8, 0x200
	v_or_b32_e32 v1, s11, v2
	s_mov_b32 m0, s11
	s_nop 0
	buffer_load_dword v1, s[4:7], 0 offen lds
	s_or_b32 s12, s8, 0x300
	v_or_b32_e32 v1, s12, v2
	s_mov_b32 m0, s12
	s_nop 0
	buffer_load_dword v1, s[4:7], 0 offen lds
	s_cmp_lt_i32 s9, 1
	s_cbranch_scc1 .LBB0_3
	s_mov_b64 s[0:1], src_shared_base
	v_lshlrev_b32_e32 v1, 2, v0
	s_add_i32 s0, s9, -1
	s_mov_b32 s14, 0
	v_sub_u32_e32 v3, 0, v1
	s_movk_i32 s13, 0x1000
	v_mov_b32_e32 v1, 0
	v_mov_b32_e32 v4, s3
.LBB0_2:
	s_add_i32 s3, s14, 1
	s_and_b32 s14, s14, 1
	s_min_i32 s16, s3, s0
	s_and_b32 s15, s13, 0x1000
	v_lshl_add_u32 v5, s14, 12, v3
	v_lshl_or_b32 v14, s16, 12, v2
	s_add_i32 s15, s8, s15
	v_add_u32_e32 v6, 0xffc, v5
	v_add_u32_e32 v8, 0xff8, v5
	v_add_u32_e32 v10, 0xff4, v5
	v_add_u32_e32 v12, 0xff0, v5
	v_add_u32_e32 v5, s8, v14
	s_mov_b32 m0, s15
	s_nop 0
	buffer_load_dword v5, s[4:7], 0 offen lds
	s_add_i32 s14, s15, 0x100
	v_add_u32_e32 v15, s10, v14
	s_mov_b32 m0, s14
	s_nop 0
	buffer_load_dword v15, s[4:7], 0 offen lds
	s_add_i32 s16, s15, 0x200
	v_add_u32_e32 v16, s11, v14
	s_mov_b32 m0, s16
	s_nop 0
	buffer_load_dword v16, s[4:7], 0 offen lds
	s_add_i32 s17, s15, 0x300
	v_add_u32_e32 v14, s12, v14
	s_mov_b32 m0, s17
	s_nop 0
	buffer_load_dword v14, s[4:7], 0 offen lds
	v_mov_b32_e32 v7, s1
	s_waitcnt vmcnt(4)
	s_barrier
	v_mov_b32_e32 v9, s1
	v_mov_b32_e32 v11, s1
	v_mov_b32_e32 v13, s1
	flat_load_dword v14, v[6:7] glc
	s_waitcnt vmcnt(0)
	flat_load_dword v15, v[8:9] glc
	s_waitcnt vmcnt(0)
	flat_load_dword v16, v[10:11] glc
	s_waitcnt vmcnt(0)
	flat_load_dword v17, v[12:13] glc
	s_waitcnt vmcnt(0)
	v_lshlrev_b64 v[6:7], 2, v[0:1]
	v_add_co_u32_e32 v6, vcc, s2, v6
	v_addc_co_u32_e32 v7, vcc, v4, v7, vcc
	s_addk_i32 s13, 0x1000
	v_add_u32_e32 v0, 0x400, v0
	s_cmp_eq_u32 s9, s3
	s_mov_b32 s14, s3
	s_waitcnt lgkmcnt(0)
	global_store_dwordx4 v[6:7], v[14:17], off
	s_waitcnt vmcnt(0) lgkmcnt(0)
	s_barrier
	s_cbranch_scc0 .LBB0_2
.LBB0_3:
	s_endpgm
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel dma_copy
		.amdhsa_group_segment_fixed_size 8192
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_kernarg_size 24
		.amdhsa_user_sgpr_count 6
		.amdhsa_user_sgpr_private_segment_buffer 1
		.amdhsa_user_sgpr_dispatch_ptr 0
		.amdhsa_user_sgpr_queue_ptr 0
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_dispatch_id 0
		.amdhsa_user_sgpr_flat_scratch_init 0
		.amdhsa_user_sgpr_kernarg_preload_length 0
		.amdhsa_user_sgpr_kernarg_preload_offset 0
		.amdhsa_user_sgpr_private_segment_size 0
		.amdhsa_uses_dynamic_stack 0
		.amdhsa_system_sgpr_private_segment_wavefront_offset 0
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_system_sgpr_workgroup_id_y 0
		.amdhsa_system_sgpr_workgroup_id_z 0
		.amdhsa_system_sgpr_workgroup_info 0
		.amdhsa_system_vgpr_workitem_id 0
		.amdhsa_next_free_vgpr 18
		.amdhsa_next_free_sgpr 18
		.amdhsa_accum_offset 20
		.amdhsa_reserve_vcc 1
		.amdhsa_reserve_flat_scratch 0
		.amdhsa_float_round_mode_32 0
		.amdhsa_float_round_mode_16_64 0
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_float_denorm_mode_16_64 3
		.amdhsa_dx10_clamp 1
		.amdhsa_ieee_mode 1
		.amdhsa_fp16_overflow 0
		.amdhsa_tg_split 0
		.amdhsa_exception_fp_ieee_invalid_op 0
		.amdhsa_exception_fp_denorm_src 0
		.amdhsa_exception_fp_ieee_div_zero 0
		.amdhsa_exception_fp_ieee_overflow 0
		.amdhsa_exception_fp_ieee_underflow 0
		.amdhsa_exception_fp_ieee_inexact 0
		.amdhsa_exception_int_div_zero 0
	.end_amdhsa_kernel
	.text
.Lfunc_end0:
	.size	dma_copy, .Lfunc_end0-dma_copy
	.set dma_copy.num_vgpr, 18
	.set dma_copy.num_agpr, 0
	.set dma_copy.numbered_sgpr, 18
	.set dma_copy.num_named_barrier, 0
	.set dma_copy.private_seg_size, 0
	.set dma_copy.uses_vcc, 1
	.set dma_copy.uses_flat_scratch, 0
	.set dma_copy.has_dyn_sized_stack, 0
	.set dma_copy.has_recursion, 0
	.set dma_copy.has_indirect_call, 0
	.section	.AMDGPU.csdata,"",@progbits
	.text
	.p2alignl 6, 3212836864
	.fill 256, 4, 3212836864
	.section	.AMDGPU.gpr_maximums,"",@progbits
	.set amdgpu.max_num_vgpr, 0
	.set amdgpu.max_num_agpr, 0
	.set amdgpu.max_num_sgpr, 0
	.set amdgpu.max_num_named_barrier, 0
	.text
	.type	__hip_cuid_8d7d4d71b944ce96,@object
	.section	.bss,"aw",@nobits
	.globl	__hip_cuid_8d7d4d71b944ce96
__hip_cuid_8d7d4d71b944ce96:
	.byte	0
	.size	__hip_cuid_8d7d4d71b944ce96, 1
	.ident	"Debian clang version 22.1.8 (1~deb12u1)"
	.section	".note.GNU-stack","",@progbits
	.addrsig
	.addrsig_sym __hip_cuid_8d7d4d71b944ce96
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         8
        .size:           8
        .value_kind:     global_buffer
      - .offset:         16
        .size:           4
        .value_kind:     by_value
      - .offset:         20
        .size:           4
        .value_kind:     by_value
    .group_segment_fixed_size: 8192
    .kernarg_segment_align: 8
    .kernarg_segment_size: 24
    .max_flat_workgroup_size: 256
    .name:           dma_copy
    .private_segment_fixed_size: 0
    .sgpr_count:     22
    .sgpr_spill_count: 0
    .symbol:         dma_copy.kd
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     18
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx90a
amdhsa.version:
  - 1
  - 2
...
	.end_amdgpu_metadata
