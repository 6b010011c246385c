# SPDX-License-Identifier: Apache-2.0
# Bash completion of the backplane command. Options come from each command's own --help.

_backplane() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[1]}
  local commands='list inspect targets compile run bench profile'
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$current")
    return
  fi
  if [ "$command" = inspect ] && [ "$COMP_CWORD" -eq 2 ]; then
    mapfile -t COMPREPLY < <(compgen -W 'plugin device module function model' -- "$current")
    return
  fi
  case $previous in
    --device | -d)
      mapfile -t COMPREPLY < <(compgen -W 'auto cpu opencl vulkan cuda' -- "$current")
      return
      ;;
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(backplane "$command" --help 2>/dev/null |
      grep -oE -- '--[a-z-]+')" -- "$current")
    return
  fi
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
}
complete -o filenames -F _backplane backplane
