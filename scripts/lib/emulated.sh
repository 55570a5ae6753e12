# shellcheck shell=bash
# Sourced after setup.sh by scripts/arm64: a cross compiler, and programs for arm64 under qemu-user.

# Tests that qemu-user cannot run, and why: each is the beginning of a name, as a regular expression.
not_emulated=(
  # They bound the address space (RLIMIT_AS), which qemu-user does not pass on: it needs more itself.
  'platform/PrivatePages.without_room_the_message_names_the_limits$'
  'memory/BorrowedSegments.are_mapped_later_if_there_is_no_address_space_now$'
  'memory/Peers.of_one_process_leave_addresses_to_the_program$'
  'bus/PrivateMemory.(that_cannot_be_mapped_is_named|of_a_sample_that_was_put_aside_goes_back)'
  'system/Limits.a_loan_names_the_address_space_it_lacks$'
  'recording/ARecordCollectorForWantOfMemory.ends_with_the_reason$'
  # qemu-user does nothing for MADV_DONTDUMP.
  'platform/Mapping.is_left_out_of_core_dumps$'
  'platform/Mapping.that_copies_on_write_needs_no_writable_descriptor_and_changes_nothing$'
  # They need another user: in the namespace of `emulated` there is root alone.
  'platform/PrivateDirectory.is_refused_when_it_belongs_to_somebody_else$'
  'platform/Above.a(_group_may_write_that_is_the_owner_alone|nother_user_is_named|_link_of_another_user_is_refused)$'
  'tensor/TensorFileTest.of_somebody_else_may_not_be_opened$'
  'link/Handshake.a_process_of_another_user_is_refused$'
  'bus/Domain.of_another_user_is_refused$'
  # They fork beside busy threads, where qemu-user itself may lock up.
  'memory/Peers.can_be_counted_by_a_child_that_was_forked_at_any_moment$'
  'platform/BackgroundThread.is_started_by_a_child_that_was_forked_while_it_was_started$'
  # qemu-user refuses lists of robust futexes (set_robust_list).
  'platform/LifeWord.(a_|the_end|garbage)'
  # The kernel shall give an address again that was in use before: it does not under qemu-user.
  'cuda/DeviceExports.at_an_address_that_is_used_again_are_the_new_ones$'
  # They do something so often that qemu-user needs minutes for it, or a peer gives up meanwhile: a
  # hundred thousand calls of recvmsg, an allocation that fails at every place, a directory that is
  # swept all the time, a hundred inspections, owners that do not speak, every interleaving of a model.
  'link/ChannelPair.that_ends_with_lingering_sockets_unread_waits_for_nobody$'
  'allocation/Allocation.that_fails_in_the_thread_of_a_participant_delays_a_connection_only$'
  'bus/Sweep.hurts_no_newborn$'
  'bus/Inspect.keeps_nothing_open$'
  'bus/ManySilentOwners.leave_descriptors_to_the_program_and_honest_ones_are_found$'
  'bus/TurnedAway.a_call_says_what_was_short_also_if_refusals_are_slow$'
  'system/kill_storm$'
  'model/.*(EveryStep|EveryOrder)'
  'weak_memory/MemoryOrders.each_is_needed$'
)
# The same, with pages that are larger than those of the machine below.
not_with_large_pages=(
  # What a child keeps is seen by a mapping of an empty file, which qemu-user does not make when its
  # pages are larger than the machine's.
  'platform/InheritedItems'
  # Huge pages of 2 MiB are of pages of 4 KiB. With larger ones they have other sizes.
  'memory/HugeSegments'
  # The loader allocates behind its own data, up to the end of the page; qemu-user 7.2 maps that page
  # in parts of 4 KiB. These programs have enough threads and libraries to get there.
  'public/Callbacks'
  'public/Topic.(keeper_of_a_tensor_is_let_go_of_whatever_becomes_of_the_call|mistakes_are_named)$'
  'public/Domain.lists_who_is_there$'
)

setup_cross_compiler() {
  local missing=()
  command -v aarch64-linux-gnu-g++ >/dev/null || missing+=(g++-aarch64-linux-gnu)
  command -v qemu-aarch64-static >/dev/null || missing+=(qemu-user-static)
  install_debian_packages "${missing[@]}"
}

# Libraries that Tensorbus loads when a program needs them: Debian's packages for arm64, unpacked.
arm64_libraries=build/arm64-libraries
unpack_arm64_libraries() {
  local folder=$PWD/$arm64_libraries package options
  if [[ -f $folder/made ]]; then return; fi
  options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Status=/dev/null
    -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache=$folder/cache")
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
  logged arm64-libraries apt-get "${options[@]}" update
  # shellcheck disable=SC2016
  logged arm64-libraries bash -euc 'cd "$1" && apt-get "${@:2}" download libzstd1 liblz4-1' \
    bash "$folder" "${options[@]}"
  for package in "$folder"/*.deb; do dpkg-deb --extract "$package" "$folder"; done
  touch "$folder/made"
}

left_out() { # left_out BYTES: a regular expression
  local names=("${not_emulated[@]}")
  if [[ $1 -ne 4096 ]]; then names+=("${not_with_large_pages[@]}"); fi
  local IFS='|'
  echo "^(${names[*]})"
}

# What is run: everything, and with larger pages the layers that map and share memory, and what is
# above the C interface. The others have not been made ready: the tests of the CUDA stand-in have
# buffers of 4 KiB, and those of the bus wait for forked children, which qemu-user hides
# (InheritedItems above).
labels_with() { # labels_with BYTES: a regular expression
  if [[ $1 -eq 4096 ]]; then echo .; else echo '^(platform|memory|tensor|link|public|c)$'; fi
}

# emulated COMMAND...: programs for arm64 run as others do, the processes that they start too. The
# kernel is told so in a user namespace alone (Linux 6.7 or newer), so that nothing else on the
# machine is changed.
emulated() {
  # shellcheck disable=SC2016
  unshare --user --map-root-user --mount --pid --fork --kill-child bash -euc '
    mount -t proc proc /proc
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc ||
      { echo "error: binfmt_misc of a user namespace needs Linux 6.7" >&2 && exit 1; }
    cat /usr/lib/binfmt.d/qemu-aarch64.conf >/proc/sys/fs/binfmt_misc/register
    exec "$@"
  ' bash "$@"
}
