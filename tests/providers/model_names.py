"""Names of models as people run them, and shapes of keys. Neither may be taken for the other."""

from __future__ import annotations

KEYS = """
sk-proj-4fT9xQ2LmZ8vB1nC sk-ant-api03-Zx9_Kq2Lm-Vb7Nc4 sk-or-v1-0f3a9c7e5b1d8264 AIzaSyD4fT9xQ2LmZ8 ghp_4fT9xQ2LmZ8vB1nCqW3e
github_pat_11ABCDEFG0aBcDeF glpat-4fT9xQ2LmZ8vB1nC AKIAIOSFODNN7EXAMPLE xoxb-1234-abcd hf_AbCdEfGhIjKlMnOpQrStUvWxYz
gsk_4fT9xQ2LmZ8vB1nCqW3e xai-4fT9xQ2LmZ8vB1nCqW3e nvapi-4fT9xQ2LmZ8vB1nCqW3e pplx-4fT9xQ2LmZ8vB1nCqW3e
r8_4fT9xQ2LmZ8vB1nCqW3e csk-4fT9xQ2LmZ8vB1nC tgp_v1_4fT9xQ2LmZ8 eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl
f3Kq8ZxW2mNv7Lr1Tb5Yc9Pd wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY 7hQ2vX9bLm4Zt6Rk1Wc8Ns3Pf5Jd0GyA
""".split()  # noqa: E501
MODELS = """
openai/meta-llama/Llama-3.1-8B-Instruct hosted_vllm/Qwen/Qwen3-8B Qwen/Qwen2.5-Coder-32B-Instruct-AWQ MiniMax-M2.5
bartowski/Meta-Llama-3.1-8B-Instruct-GGUF hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M ollama_chat/qwen3:8b
hosted_vllm/Qwen/Qwen3-235B-A22B-Thinking-2507-FP8 Qwen/Qwen3-Next-80B-A3B-Thinking-AWQ-4bit XiaomiMiMo/MiMo-7B-RL-0530
mlx-community/DeepSeek-R1-0528-Qwen3-8B-4bit-DWQ-053125 openai/nvidia/Llama-3_3-Nemotron-Super-49B-v1_5
meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8 TheBloke/Nous-Hermes-2-Mixtral-8x7B-DPO-GGUF
ISTA-DASLab/Meta-Llama-3.1-8B-Instruct-AQLM-PV-2Bit-1x16-hf OpenGVLab/InternVL3_5-241B-A28B-Instruct
lm_studio/lmstudio-community/Qwen2.5-7B-Instruct-1M-GGUF lmstudio-community/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M
unsloth/Qwen3-Coder-30B-A3B-Instruct-1M-GGUF ollama_chat/qwen2.5-coder:32b-instruct-q4_K_M ubergarm/Kimi-K2-IQ4_KSS-GGUF
ft:gpt-4.1-mini-2025-04-14:my-org::BTz2QzXa openai/ft:gpt-4o-mini-2024-07-18:acme-corp:skill-author:9Kf3QzXa
us.anthropic.claude-sonnet-4-5-20250929-v1:0 vertex_ai/claude-sonnet-4@20250514 dashscope/qwen3-coder-480b-a35b-instruct
bedrock/arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3d4e5f6
bedrock/converse/arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.anthropic.claude-3-7-sonnet-20250219-v1:0
cloudflare/@cf/meta/llama-3.1-8b-instruct-fp8 fireworks_ai/accounts/fireworks/models/llama4-maverick-instruct-basic
azure/my-Deployment-GPT5-Mini-EU02 sagemaker/jumpstart-dft-meta-textgeneration-llama-2-7b house/task-classifier-8b
house/laughs_and_tears_7b openrouter/nousresearch/deephermes-3-llama-3-8b-preview:free openai/gpt-oss-120b
""".split()
