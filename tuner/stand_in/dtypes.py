"""The dtypes that AITER names."""

import torch

fp4x2 = torch.float4_e2m1fn_x2
fp8_e8m0 = torch.float8_e8m0fnu
bf16 = torch.bfloat16
fp16 = torch.float16
fp32 = torch.float32
