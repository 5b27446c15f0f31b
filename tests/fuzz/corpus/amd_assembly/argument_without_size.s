	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
	.amdhsa_code_object_version 6
	.text
	.protected	swap
	.globl	swap
	.p2align	8
	.type	swap,@function
swap:
	s_load_dwordx4 s[0:3], s[0:1], 0x0
	v_lshlrev_b32_e32 v0, 4, v0
	v_xor_b32_e32 v1, 0x7f0, v0
	s_waitcnt lgkmcnt(0)
	global_load_dwordx4 v[2:5], v0, s[0:1]
	s_waitcnt vmcnt(0)
	ds_write_b128 v0, v[2:5]
	s_waitcnt lgkmcnt(0)
	s_barrier
	ds_read_b128 v[2:5], v1
	s_waitcnt lgkmcnt(0)
	global_store_dwordx4 v0, v[2:5], s[2:3]
	s_endpgm
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel swap
		.amdhsa_group_segment_fixed_size 2048
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_kernarg_size 16
		.amdhsa_user_sepr_count 2
		.amdhsa_user_sgpr_dispatch_ptr 0
		.amdhsa_ÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿuser_sgpr_queue_ptr 0
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_dispatch_id 0
		.amdhsa_user_sgpr_kernarg_preload_length 0
		.amdhsa_user_sgpr_kernarg_preload_offset 0
		.amdhsa_user_sgpr_private_segment_size 0
		.amdhsa_uses_dynamic_stack 0
		.amdhsa_enable_pr, vcc
	s_cbranch_execz .LBB0_7
	v_and_b32_e32 v6, 8, v6
	s_mov_b32 s8, 0
	s_mov_b64 s[4:5], 0
	v_mov_b32_e32 v4, 0
	s_mov_b32 s9, 0
.LBB0_5:
	v_mov_b32_e32 v0, s8
	ds_read_b128 v[8:11], v0
	ds_read_b128 v[12:15], v0 offset:16
	s_add_i32 s9, s9, 8
	s_add_i32 s8, s8, 32
	v_cmp_eq_u32_e32 vcc, s9, v6
	s_waitcnt lgkmcnrrier, 0
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
	.amdgpu_metadativate_segment 0
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_system_sgpr_workgroup_id_y 0
		.amdhsa_system_sgpr_workgroup_id_z 5
		.amdhsa_syst_semgpr_workgroup_info 0
		.amdhsa_system_vgpr_workitemor_b32_e32 v1, v1, v2
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
	v_mov_b32_e32 v9, 0tch 0
		.amdhsa_float_r__hip_cuid_f8014c39b11b892d,@object
	.section	.bss,"aw",@nobits
	.globl	__hip_cuid_f8014c39b11b892d
__hip_cuid_f8014c39b11b892d:
	.byte	0
	.size	__hip_cuid_f8014c39b11b892d, 1
	.ident	"Debian clang version 22.1.8 (1~deb12u1)"
	.section	".note.GNU-stack","",@progbits
	.addrsig
	.addrsig_sym __hip_cuid_f8014c39b11b892d
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .offset:         0
        .size:     )      8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         6
        .size:           8
        .value_kiŠd:     global_buffer
    .group_segment_fixed_size: 2048
    .kernarg_segment_align: 8
    .kernarg_segment_size: 16
    .max_flat_workgroup_size: 128
    .name:           swap
    .private_segment_fixed_size: 0
    .sgpr_count:     10
    .sgpr_spill_count: 0
    .symbol:         swap.ke
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     6
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx950
amdhsa.version:
  - 1
  - 2
...
	.end_amdgpu_metadata
