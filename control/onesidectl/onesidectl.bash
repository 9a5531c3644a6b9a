# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Bash completion of onesidectl. Queries to the data plane use the options typed so far.

# _onesidectl_ask WHAT KEY: prints the values of KEY in list WHAT.
_onesidectl_ask() {
	"${words[0]}" "${_onesidectl_options[@]}" --json show "$1" 2>/dev/null |
		sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" | sort -u
}

# Offers the given words that begin with the word being typed.
_onesidectl_offer() {
	local word
	COMPREPLY=()
	for word in "$@"; do
		[[ $word == "$cur"* ]] && COMPREPLY+=("$word")
	done
	# No blank after name=: the value follows.
	[[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
	return 0
}

# Offers the words that may follow a word of setup.
_onesidectl_setup() {
	case $1 in
	--port) _onesidectl_offer memif $(cd /sys/class/net && printf '%s\n' * | grep -vx lo) ;;
	--take-away) _onesidectl_offer $(cd /sys/class/net && printf '%s\n' * | grep -vx lo) ;;
	--driver) _onesidectl_offer vfio bifurcated af_xdp af_packet memif ;;
	--idle) _onesidectl_offer spin yield sleep ;;
	--role) _onesidectl_offer server client ;;
	--output | --cable) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	--address | --gateway | --mtu | --node | --peer | --cores) COMPREPLY=() ;;
	*) _onesidectl_offer --port --driver --address --gateway --mtu --cable --role --node --peer --cores --idle \
		--take-away --output --replace --yes --dry-run ;;
	esac
}

_onesidectl() {
	local cur=${COMP_WORDS[COMP_CWORD]} i=1 command= place=0 key=
	local -a words=("${COMP_WORDS[@]}") _onesidectl_options=() words_of_key=()
	local whats='clients endpoints connections listeners segments memory ports peers neighbours cores drops transport quota ipsec version'

	for (( ; i < COMP_CWORD; i++)); do
		case ${words[i]} in
		-s | --socket)
			_onesidectl_options+=("${words[i]}" "${words[i + 1]}")
			i=$((i + 1))
			;;
		-*) _onesidectl_options+=("${words[i]}") ;;
		*)
			command=${words[i]}
			place=$((COMP_CWORD - i))
			break
			;;
		esac
	done
	# Bash splits name=value into three words when COMP_WORDBREAKS has =.
	if [[ $cur == = ]]; then
		key=${words[COMP_CWORD - 1]} cur=
	elif [[ ${words[COMP_CWORD - 1]} == = ]]; then
		key=${words[COMP_CWORD - 2]}
	elif [[ $cur == *=* ]]; then
		key=${cur%%=*}
	fi
	case ${key:-} in
	port) mapfile -t words_of_key < <(_onesidectl_ask ports port) ;;
	pid | client) mapfile -t words_of_key < <(_onesidectl_ask clients "$key") ;;
	uid) mapfile -t words_of_key < <(compgen -u) ;;
	peer) mapfile -t words_of_key < <(_onesidectl_ask connections peer) ;;
	qp) mapfile -t words_of_key < <(_onesidectl_ask endpoints qpn) ;;
	*) key= ;;
	esac
	if [[ -n $key ]]; then
		[[ $cur == *=* ]] && words_of_key=("${words_of_key[@]/#/$key=}")
		_onesidectl_offer "${words_of_key[@]}"
		return
	fi
	case $place:$command in
	0:)
		if [[ ${words[COMP_CWORD - 1]} == -s || ${words[COMP_CWORD - 1]} == --socket ]]; then
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		_onesidectl_offer show top setup trace metrics capture check reload upgrade peer client move drain log --socket --json --help --version
		;;
	1:show) _onesidectl_offer $whats ;;
	*:show) _onesidectl_offer pid= uid= port= peer= --json ;;
	*:top) _onesidectl_offer interval= count= ;;
	*:trace) _onesidectl_offer qp= client= pid= count= ;;
	*:setup) _onesidectl_setup "${words[COMP_CWORD - 1]}" ;;
	1:metrics) _onesidectl_offer openmetrics prometheus ;;
	*:capture) _onesidectl_offer port= file= -- ;;
	*:check) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	1:reload) _onesidectl_offer check upgrade ;;
	1:upgrade) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	1:peer) _onesidectl_offer add remove ;;
	2:peer) [[ ${words[COMP_CWORD - 1]} == remove ]] && _onesidectl_offer $(_onesidectl_ask peers node) ;;
	4:peer) _onesidectl_offer port= ;;
	1:client) _onesidectl_offer kill ;;
	2:client) _onesidectl_offer client= $(_onesidectl_ask clients pid) ;;
	1:move) _onesidectl_offer $(_onesidectl_ask endpoints qpn) ;;
	2:move) _onesidectl_offer $(_onesidectl_ask cores core) ;;
	1:log) _onesidectl_offer level ;;
	*:log) _onesidectl_offer emergency alert critical error warning notice info debug ;;
	esac
}
complete -F _onesidectl onesidectl
