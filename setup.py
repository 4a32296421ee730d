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
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
import sys

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
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
    """Files below robot_infer/ that are not Python: the demo policy, tables, parts of pages."""
    root = Path(NAME)
    patterns = ('assets/**/*', 'budget/*.yaml', 'budget/*.csv', 'plan_page/*.css',
                'plan_page/*.js')
    return [str(path.relative_to(root)) for pattern in patterns
            for path in sorted(root.glob(pattern)) if path.is_file()]


def compiler():
    """kernels/cpu/build.py, which compiles the C++ kernels and imports nothing of the package."""
    spec = spec_from_file_location('build_kernels', Path('kernels/cpu/build.py').resolve())
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


class BuildKernels(build_ext):
    """Several libraries from one source, none of them a Python module, and none of them needed.

    They are loaded with ctypes; what could not be compiled is said, and the package goes without.
    """

    def run(self):
        build = compiler()
        in_place = self.inplace or getattr(self, 'editable_mode', False)
        folder = Path('kernels/cpu') if in_place else Path(self.build_lib, KERNELS[0], 'cpu')
        self.libraries_made = [] if in_place else [
            str(folder / build.file_name(name)) for name in build.builds()]
        build.report(build.build_all(folder))

    def get_outputs(self):
        return [name for name in getattr(self, 'libraries_made', ()) if Path(name).exists()]

    def get_output_mapping(self):
        return {}

    def get_source_files(self):
        return sorted(glob('kernels/cpu/attend*'))


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
    package_data={NAME: [*assets(), 'budget/*.yaml', 'budget/*.csv'],
                  'robot_infer_kernels': ['README.md', 'cpu/*.cpp', 'cpu/*.h']},
    ext_modules=[Extension('robot_infer_kernels.cpu._attend', ['kernels/cpu/attend.cpp'])],
    cmdclass={'build_ext': BuildKernels},
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
            f'plan = {NAME}.plan_command:main',  # ros2 run robot_infer plan
        ],
    },
)
