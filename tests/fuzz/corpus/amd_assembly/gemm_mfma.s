	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
	.amdhsa_code_object_version 6
	.text
	.protected	gemm_mfma
	.globl	gemm_mfma
	.p2align	8
	.type	gemm_mfma,@function
gemm_mfma:
	s_load_dwordx8 s[4:11], s[0:1], 0x0
	v_lshrrev_b32_e32 v2, 6, v0
	v_lshrrev_b32_e32 v3, 2, v0
	v_and_b32_e32 v20, 32, v3
	v_lshrrev_b32_e32 v1, 3, v0
	s_waitcnt lgkmcnt(0)
	s_cmp_gt_i32 s11, 0
	v_lshlrev_b32_e32 v2, 5, v2
	v_and_b32_e32 v21, 31, v0
	s_cbranch_scc1 .LBB0_2
	v_and_b32_e32 v22, 4, v1
	v_and_b32_e32 v23, 32, v2
	s_mov_b64 s[0:1], 0
	s_branch .LBB0_3
.LBB0_2:
	s_mov_b64 s[0:1], -1
.LBB0_3:
	s_lshl_b32 s3, s3, 6
	s_andn2_b64 vcc, exec, s[0:1]
	s_lshl_b32 s0, s2, 6
	s_cbranch_vccnz .LBB0_6
	v_lshlrev_b32_e32 v0, 3, v0
	v_and_b32_e32 v0, 24, v0
	v_mul_u32_u24_e32 v5, 0x50, v3
	s_movk_i32 s1, 0x50
	v_lshl_add_u32 v24, v0, 1, v5
	v_mul_u32_u24_e32 v5, 0x50, v21
	v_and_b32_e32 v22, 4, v1
	v_and_b32_e32 v23, 32, v2
	v_mad_u32_u24 v1, v23, s1, v5
	v_lshlrev_b32_e32 v2, 1, v22
	v_add_u32_e32 v4, s3, v3
	v_add_u32_e32 v3, s0, v3
	v_mad_u32_u24 v6, v20, s1, v5
	v_or_b32_e32 v1, v1, v2
	v_or_b32_e32 v25, v6, v2
	v_add_u32_e32 v26, 0x1400, v1
	v_mad_u64_u32 v[16:17], s[12:13], s11, v4, v[0:1]
	v_mad_u64_u32 v[18:19], s[12:13], s11, v3, v[0:1]
	s_mov_b32 s1, 0
	v_mov_b32_e32 v0, 0
	v_mov_b32_e32 v1, 0
	v_mov_b32_e32 v2, 0
	v_mov_b32_e32 v3, 0
	v_mov_b32_e32 v4, 0
	v_mov_b32_e32 v5, 0
	v_mov_b32_e32 v6, 0
	v_mov_b32_e32 v7, 0
	v_mov_b32_e32 v8, 0
	v_mov_b32_e32 v9, 0
	v_mov_b32_e32 v10, 0
	v_mov_b32_e32 v11, 0
	v_mov_b32_e32 v12, 0
	v_mov_b32_e32 v13, 0
	v_mov_b32_e32 v14, 0
	v_mov_b32_e32 v15, 0
.LBB0_5:
	v_add_u32_e32 v28, s1, v16
	v_add_u32_e32 v30, s1, v18
	v_ashrrev_i32_e32 v29, 31, v28
	v_ashrrev_i32_e32 v31, 31, v30
	v_lshl_add_u64 v[28:29], v[28:29], 1, s[4:5]
	v_lshl_add_u64 v[30:31], v[30:31], 1, s[6:7]
	global_load_dwordx4 v[32:35], v[28:29], off
	global_load_dwordx4 v[36:39], v[30:31], off
	s_add_i32 s1, s1, 32
	s_cmp_ge_i32 s1, s11
	s_waitcnt vmcnt(1)
	ds_write_b128 v24, v[32:35]
	s_waitcnt vmcnt(0)
	ds_write_b128 v24, v[36:39] offset:5120
	s_waitcnt lgkmcnt(0)
	s_barrier
	ds_read2_b64 v[28:31], v25 offset1:2
	ds_read2_b64 v[32:35], v26 offset1:2
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_bf16 v[0:15], v[28:29], v[32:33], v[0:15]
	ds_read2_b64 v[36:39], v25 offset0:4 offset1:6
	v_mfma_f32_32x32x8_bf16 v[0:15], v[30:31], v[34:35], v[0:15]
	ds_read2_b64 v[28:31], v26 offset0:4 offset1:6
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_bf16 v[0:15], v[36:37], v[28:29], v[0:15]
	s_barrier
	v_mfma_f32_32x32x8_bf16 v[0:15], v[38:39], v[30:31], v[0:15]
	s_cbranch_scc0 .LBB0_5
	s_branch .LBB0_7
.LBB0_6:
	v_mov_b32_e32 v15, 0
	v_mov_b32_e32 v14, 0
	v_mov_b32_e32 v13, 0
	v_mov_b32_e32 v12, 0
	v_mov_b32_e32 v11, 0
	v_mov_b32_e32 v10, 0
	v_mov_b32_e32 v9, 0
	v_mov_b32_e32 v8, 0
	v_mov_b32_e32 v7, 0
	v_mov_b32_e32 v6, 0
	v_mov_b32_e32 v5, 0
	v_mov_b32_e32 v4, 0
	v_mov_b32_e32 v3, 0
	v_mov_b32_e32 v2, 0
	v_mov_b32_e32 v1, 0
	v_mov_b32_e32 v0, 0
.LBB0_7:
	v_add_u32_e32 v16, s3, v20
	v_or_b32_e32 v16, v16, v22
	v_or3_b32 v18, v21, v23, s0
	v_mul_lo_u32 v19, v16, s10
	v_add_u32_e32 v16, v18, v19
	v_ashrrev_i32_e32 v17, 31, v16
	s_ashr_i32 s11, s10, 31
	v_lshl_add_u64 v[16:17], v[16:17], 2, s[8:9]
	s_lshl_b64 s[0:1], s[10:11], 2
	s_nop 0
	global_store_dword v[16:17], v0, off
	v_lshl_add_u64 v[16:17], v[16:17], 0, s[0:1]
	global_store_dword v[16:17], v1, off
	v_lshl_add_u64 v[0:1], v[16:17], 0, s[0:1]
	s_lshl_b32 s2, s10, 3
	global_store_dword v[0:1], v2, off
	v_lshl_add_u64 v[0:1], v[0:1], 0, s[0:1]
	v_add_u32_e32 v2, s2, v19
	global_store_dword v[0:1], v3, off
	v_add_u32_e32 v0, v18, v2
	v_ashrrev_i32_e32 v1, 31, v0
	v_lshl_add_u64 v[0:1], v[0:1], 2, s[8:9]
	global_store_dword v[0:1], v4, off
	v_lshl_add_u64 v[0:1], v[0:1], 0, s[0:1]
	global_store_dword v[0:1], v5, off
	v_lshl_add_u64 v[0:1], v[0:1], 0, s[0:1]
	global_store_dword v[0:1], v6, off
	v_lshl_add_u64 v[0:1], v[0:1], 0, s[0:1]
	v_add_u32_e32 v2, s2, v2
	global_store_dword v[0:1], v7, off
	v_add_u32_e32 v0, v18, v2
	v_ashrrev_i32_e32 v1, 31, v0
	v_lshl_add_u64 v[0:1], v[0:1], 2, s[8:9]
	global_store_dword v[0:1], v8, off
	v_lshl_add_u64 v[0:1], v[0:1], 0, s[0:1]
	global_store_dword v[0:1], v9, off
	v_lshl_add_u64 v[0:1], v[0:1], 0, s[0:1]
	global_store_dword v[0:1], v10, off
	v_lshl_add_u64 v[0:1], v[0:1], 0, s[0:1]
	global_store_dword v[0:1], v11, off
	v_add3_u32 v0, s2, v2, v18
	v_ashrrev_i32_e32 v1, 31, v0
	v_lshl_add_u64 v[0:1], v[0:1], 2, s[8:9]
	global_store_dword v[0:1], v12, off
	v_lshl_add_u64 v[0:1], v[0:1], 0, s[0:1]
	global_store_dword v[0:1], v13, off
	v_lshl_add_u64 v[0:1], v[0:1], 0, s[0:1]
	global_store_dword v[0:1], v14, off
	v_lshl_add_u64 v[0:1], v[0:1], 0, s[0:1]
	global_store_dword v[0:1], v15, off
	s_endpgm
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel gemm_mfma
		.amdhsa_group_segment_fixed_size 10240
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_kernarg_size 32
		.amdhsa_user_sgpr_count 2
		.amdhsa_user_sgpr_dispatch_ptr 0
		.amdhsa_user_sgpr_queue_ptr 0
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_dispatch_id 0
		.amdhsa_user_sgpr_kernarg_preload_length 0
		.amdhsa_user_sgpr_kernarg_preload_offset 0
		.amdhsa_user_sgpr_private_segment_size 0
		.amdhsa_uses_dynamic_stack 0
		.amdhsa_enable_private_segment 0
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_system_sgpr_workgroup_id_y 1
		.amdhsa_system_sgpr_workgroup_id_z 0
		.amdhsa_system_sgpr_workgroup_info 0
		.amdhsa_system_vgpr_workitem_id 0
		.amdhsa_next_free_vgpr 40
		.amdhsa_next_free_sgpr 14
		.amdhsa_accum_offset 40
		.amdhsa_reserve_vcc 1
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
	.size	gemm_mfma, .Lfunc_end0-gemm_mfma
	.set gemm_mfma.num_vgpr, 40
	.set gemm_mfma.num_agpr, 0
	.set gemm_mfma.numbered_sgpr, 14
	.set gemm_mfma.num_named_barrier, 0
	.set gemm_mfma.private_seg_size, 0
	.set gemm_mfma.uses_vcc, 1
	.set gemm_mfma.uses_flat_scratch, 0
	.set gemm_mfma.has_dyn_sized_stack, 0
	.set gemm_mfma.has_recursion, 0
	.set gemm_mfma.has_indirect_call, 0
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
	.type	__hip_cuid_b45417ae6d10b2c,@object
	.section	.bss,"aw",@nobits
	.globl	__hip_cuid_b45417ae6d10b2c
__hip_cuid_b45417ae6d10b2c:
	.byte	0
	.size	__hip_cuid_b45417ae6d10b2c, 1
	.ident	"Debian clang version 22.1.8 (1~deb12u1)"
	.section	".note.GNU-stack","",@progbits
	.addrsig
	.addrsig_sym __hip_cuid_b45417ae6d10b2c
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
      - .address_space:  global
        .offset:         16
        .size:           8
        .value_kind:     global_buffer
      - .offset:         24
        .size:           4
        .value_kind:     by_value
      - .offset:         28
        .size:           4
        .value_kind:     by_value
    .group_segment_fixed_size: 10240
    .kernarg_segment_align: 8
    .kernarg_segment_size: 32
    .max_flat_workgroup_size: 256
    .name:           gemm_mfma
    .private_segment_fixed_size: 0
    .sgpr_count:     20
    .sgpr_spill_count: 0
    .symbol:         gemm_mfma.kd
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     40
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx950
amdhsa.version:
  - 1
  - 2
...
	.end_amdgpu_metadata
