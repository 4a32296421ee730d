# Copyright 2026 The robot_infer authors
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.


"""Packaging: what colcon, pip and `ros2 run` need to know; nothing here runs on the robot."""

from glob import glob
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.develop import develop

NAME = 'robot_infer'
EXECUTABLES = f'$base/lib/{NAME}'

# `kernels/` stays a top-level folder but is imported as robot_infer_kernels: a module named
# `kernels` would shadow the package of that name on PyPI. Only first-level names may be mapped,
# and robot_infer itself must not be: both would break `colcon build --symlink-install`.
KERNELS = ['robot_infer_kernels'] + [
    f'robot_infer_kernels.{name}' for name in find_packages('kernels')]

# colcon's --symlink-install calls `develop`; setuptools 80 dropped the option it needs.
develop_has_script_dir = any(option == 'script-dir=' for option, *_ in develop.user_options)
options = {'develop': {'script_dir': EXECUTABLES}} if develop_has_script_dir else {}


def assets():
    """Files below robot_infer/ that are not Python: the demo policy and its like."""
    root = Path(NAME)
    return [str(path.relative_to(root)) for path in sorted(root.glob('assets/**/*'))
            if path.is_file()]


setup(
    name=NAME,
    version='0.1.0',
    description='Runs vision-language-action policies on the robot\'s own computer, on time.',
    long_description=Path('README.md').read_text() if Path('README.md').exists() else '',
    long_description_content_type='text/markdown',
    author='The robot_infer authors',
    author_email='maintainers@example.org',
    maintainer='The robot_infer authors',
    maintainer_email='maintainers@example.org',
    license='Apache-2.0',
    python_requires='>=3.10,<3.13',
    packages=find_packages(include=[NAME, f'{NAME}.*']) + KERNELS,
    package_dir={'robot_infer_kernels': 'kernels'},
    package_data={NAME: assets()},
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
        (f'share/{NAME}/launch', sorted(glob('launch/*.py'))),
        (f'share/{NAME}/config', sorted(glob('config/*'))),
    ],
    zip_safe=False,
    options=options,
    install_requires=[
        'click>=8.0',
        'ddsketch>=3.0',
        'matplotlib>=3.5',
        'mcap>=1.2',
        'numpy>=1.26',
        'opencv-python-headless>=4.8',
        'psutil>=5.9',
        'pydantic>=2.6',
        'PyYAML>=5.4',
        'rich>=12.0',
        'rosbags>=0.11.9,<0.12',
        'safetensors>=0.4',
        'tokenizers>=0.15',
        'torch>=2.4',
    ],
    extras_require={
        'test': ['hypothesis>=6.80', 'pytest>=7.0', 'ruff>=0.4'],
        # Compiles and interprets the GPU kernels without a GPU. Pinned: what registers and shared
        # memory come out depends on it. CUDA builds of torch bring the one that they run with.
        'check': ['triton==3.7.1'],
    },
    entry_points={
        'console_scripts': [
            f'robot_infer_node = {NAME}.ros.start:node',
            f'robot_infer_guard = {NAME}.ros.start:guard',
            f'robot_infer_sim = {NAME}.ros.start:sim',
            f'robot-infer = {NAME}.cli:main',
        ],
    },
)
