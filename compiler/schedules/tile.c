/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules reductions in register tiles: a tile of the result stays in vector registers through
 * the whole reduction. The axes and sizes of the tile are the cheapest ones under a model of a core
 * that does two vector multiply-adds and two loads in a cycle. */

#include "compiler/schedules/parts.h"

#include <stdlib.h>

#define MAX_TILED   3 /* tiled axes besides the vector axis */
#define MAX_VECTORS 6

/* The cycles from a multiply-add to the next one that needs its result, at two multiply-adds in a
 * cycle. */
#define FMA_LATENCY 4.0
/* The cycles for loading a vector from the second-level cache. */
#define STREAM_CYCLES 2.5
/* The bytes that are loaded in a cycle from a panel, which was stored in the second-level cache
 * just before. A vector of a panel takes at most STREAM_CYCLES. */
#define PANEL_BYTES 15.0
/* The cycles for starting and storing a tile. */
#define TILE_START 20.0
/* The addresses of vectors that a core keeps in registers, and the cycles for computing another. */
#define ADDRESSES      4
#define ADDRESS_CYCLES 0.5
/* The maximum number of elements that a step of a tile loads one by one. The loads take nearly all
 * of the time, however large the tile is, and each load is code of its own. */
#define MAX_SINGLE 64

typedef struct Tile {
  int64_t size[BP__TE_MAX_AXES]; /* size by data axis; the size of the vector axis is in elements */
  int32_t vector_axis;
  int64_t vectors;
} Tile;

/* ---- Choosing the tile ------------------------------------------------------------------- */

/* The last long data axis. */
static int32_t vector_axis_of(const BpStageInfo *info) {
  for (int32_t i = info->ndim - 1; i > 0; i--)
    if (bp__info_is_long(info, i))
      return i;
  return 0;
}

/* Whether all elements of a tile along an axis read the same element. An access that is linear only
 * in pieces of the axis is linear in a tile, because tiles do not cross pieces. */
static bool is_shared(const BpAccess *access, int32_t axis) {
  return (access->is_linear[axis] || access->piece[axis] != 0) && access->stride[axis] == 0;
}

/* The number of values of a read that a tile needs in one step: vectors, or scalars to
 * broadcast. */
static double values_of(const BpStageInfo *info, const BpAccess *access, const Tile *tile) {
  double count = 1;
  for (int32_t i = 0; i < info->ndim; i++)
    if (!is_shared(access, i))
      count *= (double)(i == tile->vector_axis ? tile->vectors : tile->size[i]);
  return count;
}

/* The largest length that divides all pieces in which accesses are linear along an axis; 0 if the
 * axis has no pieces. */
static int64_t piece_of(const BpStageInfo *info, int32_t axis) {
  int64_t common = 0;
  for (int32_t i = 0; i < info->num_accesses; i++)
    common = bp__greatest_divisor(common, info->accesses[i].piece[axis]);
  return common;
}

static bool is_vector_access(const BpAccess *access, const Tile *tile) {
  return bp__access_depends_on(access, tile->vector_axis);
}

/* The number of elements that a step loads one by one, because they are at no known distance. */
static double single_loads(const BpStageInfo *info, const Tile *tile, const BpMachine *machine) {
  double count = 0;
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    if (is_vector_access(access, tile) && !access->is_linear[tile->vector_axis] &&
        access->piece[tile->vector_axis] == 0)
      count += values_of(info, access, tile) * (double)machine->lanes;
  }
  return count;
}

/* The cycles of the load units in a reduction step; *registers is set to the number of registers
 * for operands. */
static double loads_of(const BpStageInfo *info, const Tile *tile, const BpMachine *machine,
                       double accumulators, double *registers) {
  double loads = 0, broadcasts = 0;
  *registers = 0;
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    double values = values_of(info, access, tile);
    bool is_vector = is_vector_access(access, tile);
    bool is_gather =
        is_vector &&
        ((!access->is_linear[tile->vector_axis] && access->piece[tile->vector_axis] == 0) ||
         access->stride[tile->vector_axis] != 1);
    loads += values * (is_gather ? (double)machine->lanes : 1);
    if (is_vector && values < accumulators)
      *registers += values;
    broadcasts += !is_vector;
  }
  /* Compilers load the next of several broadcast values early. */
  *registers += broadcasts > 1 ? broadcasts + 1 : 1;
  return loads;
}

/* The stage that computes an access' vectors for one product alone; NULL if the access has no such
 * stage.
 */
static const BpStageInfo *own_vectors(const BpStageInfo *work, const BpAccess *access,
                                      const Tile *tile, const BpMachine *machine) {
  bool has_panels = !machine->has_kernels && is_vector_access(access, tile);
  return has_panels ? bp__info_own_input(work, access) : NULL;
}

/* Whether an access reads the element at some axes of the product, as that of an operand that
 * hoist.c stores does. */
static bool is_read_by_axes(const BpStageInfo *work, const BpAccess *access) {
  for (int32_t i = 0; i < access->tensor->ndim; i++) {
    int32_t axis = 0;
    while (axis < work->num_roots && access->read->operands[1 + i] != work->s->vars[axis])
      axis++;
    if (axis == work->num_roots)
      return false;
  }
  return true;
}

/* The cycles for loading those vectors of one step that do not stay in the first-level cache. */
static double stream_cycles_of(const BpStageInfo *info, const Tile *tile,
                               const BpMachine *machine) {
  double cycles = 0, panel_cycles = (double)(machine->lanes * info->bits) / 8 / PANEL_BYTES;
  if (panel_cycles > STREAM_CYCLES)
    panel_cycles = STREAM_CYCLES;
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    if (!is_vector_access(access, tile) ||
        bp__tensor_bytes(access->tensor) * 2 <= (double)machine->l1)
      continue;
    bool is_panel = own_vectors(info, access, tile, machine) && is_read_by_axes(info, access);
    cycles += values_of(info, access, tile) * (is_panel ? panel_cycles : STREAM_CYCLES);
  }
  return cycles;
}

/* The number of broadcast values of one step that are on different pages. */
static double scattered_values(const BpStageInfo *info, const Tile *tile) {
  double count = 0;
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    double pages = 1;
    for (int32_t d = 0; d < info->ndim; d++)
      if (d != tile->vector_axis && access->is_linear[d] && llabs(access->stride[d]) >= 1024)
        pages *= (double)tile->size[d];
    if (!is_vector_access(access, tile))
      count += pages;
  }
  return count;
}

/* The number of addresses of one step's vectors that are at open distances from one another. */
static double addresses_of(const BpStageInfo *info, const Tile *tile) {
  double count = 0;
  for (int32_t i = 0; i < info->num_accesses; i++) {
    double addresses = is_vector_access(&info->accesses[i], tile);
    for (int32_t d = 0; d < info->ndim; d++)
      if (d != tile->vector_axis && info->accesses[i].has_open_stride[d])
        addresses *= (double)tile->size[d];
    count += addresses;
  }
  return count;
}

/* Returns the factor by which jamming (lower/jam.c) shortens the time of the streams; 1 if the loop
 * is not jammed, for example because it has a shorter tile at the end. An estimate: the loop over
 * the vectors alone counts. */
static double stream_share(const BpStageInfo *info, const Tile *tile, const BpMachine *machine,
                           double accumulators) {
  int64_t columns = tile->vectors * machine->lanes, extent = info->extent[tile->vector_axis];
  double products = bp__info_size(info, 0, info->num_roots);
  int64_t cores = bp__cores_for(machine, products, BP__PARALLEL_PRODUCTS);
  if (extent % columns != 0 || cores == 1)
    return 1;
  int64_t tiles = extent / columns;
  int64_t count = bp__lower_count_streams(tiles, tiles, (int64_t)accumulators, machine->cores);
  return count == 1 ? 1 : count == 2 ? 0.75 : 0.7;
}

/* The cycles for the whole stage. */
static double cost_of(const BpStageInfo *info, const Tile *tile, const BpMachine *machine) {
  double tiles = 1, accumulators = (double)tile->vectors, registers;
  Tile mean = *tile; /* tiles have nearly equal sizes, so that the last tile is not wasted */
  for (int32_t i = 0; i < info->ndim; i++)
    if (i != tile->vector_axis) {
      accumulators *= (double)tile->size[i];
      tiles *= (double)bp__divide_up(info->extent[i], tile->size[i]);
    }
  tiles *= (double)bp__divide_up(bp__divide_up(info->extent[tile->vector_axis], machine->lanes),
                                 tile->vectors);
  double loads = loads_of(info, &mean, machine, accumulators, &registers);
  /* If a step multiplies only one vector, compilers keep broadcast values in separate registers. */
  double spare = registers > 2 ? 0 : (double)machine->registers / 3;
  if (accumulators + registers + spare > (double)machine->registers ||
      (accumulators > 1 && single_loads(info, tile, machine) > MAX_SINGLE))
    return 1e300;
  double products = info->stage->num_products > 1 ? info->stage->num_products : 1;
  double streams =
      stream_cycles_of(info, tile, machine) * stream_share(info, tile, machine, accumulators);
  double step = accumulators * products / 2;
  if (loads / 2 > step)
    step = loads / 2;
  if (streams > step)
    step = streams;
  if (step < FMA_LATENCY * products)
    step = FMA_LATENCY * products;
  step += 0.5 + 0.02 * scattered_values(info, tile);
  if (addresses_of(info, tile) > ADDRESSES)
    step += (addresses_of(info, tile) - ADDRESSES) * ADDRESS_CYCLES;
  return tiles *
         (step * bp__info_size(info, info->ndim, info->num_roots) + TILE_START + accumulators);
}

/* Tries all sizes of axis `axis` and of the axes before it. Of equally cheap tiles the one that is
 * longest along the last axes stays, because its elements lie together. */
static void search(const BpStageInfo *info, const BpMachine *machine, int32_t axis, int32_t tiled,
                   Tile *tile, Tile *best, double *best_cost) {
  while (axis >= 0 && (axis == tile->vector_axis || info->extent[axis] == 1 || tiled == MAX_TILED))
    axis--;
  if (axis < 0) {
    double cost = cost_of(info, tile, machine);
    if (cost <= *best_cost) {
      *best_cost = cost;
      *best = *tile;
    }
    return;
  }
  int64_t last = 0, piece = piece_of(info, axis);
  for (int64_t size = 1; size <= info->extent[axis] && size * tile->vectors <= machine->registers;
       size++) {
    /* Each number of tiles is tried only with the smallest tile size that gives it. */
    if (bp__divide_up(info->extent[axis], size) == last || piece % size != 0)
      continue;
    last = bp__divide_up(info->extent[axis], size);
    tile->size[axis] = size;
    search(info, machine, axis - 1, tiled + (size > 1), tile, best, best_cost);
  }
  tile->size[axis] = 1;
}

static Tile choose_tile(const BpStageInfo *info, const BpMachine *machine) {
  Tile tile = {.vector_axis = vector_axis_of(info), .vectors = 1};
  double best_cost = 1e301;
  for (int32_t i = 0; i < info->ndim; i++)
    tile.size[i] = 1;
  Tile best = tile;
  int64_t most = bp__divide_up(info->extent[tile.vector_axis], machine->lanes);
  int64_t piece = piece_of(info, tile.vector_axis);
  for (tile.vectors = 1; tile.vectors <= most && tile.vectors <= MAX_VECTORS; tile.vectors++) {
    Tile found = tile;
    double cost = 1e301;
    tile.size[tile.vector_axis] = tile.vectors * machine->lanes;
    if (piece % tile.size[tile.vector_axis] != 0)
      continue;
    search(info, machine, info->ndim - 1, 0, &tile, &found, &cost);
    if (cost < best_cost) {
      best_cost = cost;
      best = found;
    }
  }
  return best;
}

/* ---- Applying it ------------------------------------------------------------------------- */

/* The rule for an axis' tail. Moving the last tile back repeats work; if the work is little, that
 * saves a second version of the code. Tiles must not move if an operand has pieces. */
static int32_t tail_for(const BpStageInfo *info, int32_t axis, int64_t size, int32_t otherwise) {
  int64_t extent = info->extent[axis], waste = bp__divide_up(extent, size) * size - extent;
  if (piece_of(info, axis) != 0)
    return BP_TE_TAIL_PEEL;
  return extent >= size && waste * 20 <= extent ? BP_TE_TAIL_OVERLAP : otherwise;
}

/* ---- Loops over tiles -------------------------------------------------------------------- */

/* The loops of the storing stage. */
typedef struct Loops {
  BpTeAxis *outer[BP_TE_MAX_NDIM + 1]; /* loops over tiles */
  int32_t rank[BP_TE_MAX_NDIM + 1];    /* rank of each loop over tiles; rank_of orders the loops */
  int32_t num_outer;
  BpTeAxis *inner[BP_TE_MAX_NDIM]; /* loops inside a tile, without the vector axis */
  int32_t num_inner;
  BpTeAxis *vector; /* part of the vector axis that is inside a tile, or NULL */
} Loops;

/* The ranks of loops over tiles. The operand that is loaded as vectors is streamed: while a tile's
 * broadcast values stay in the first-level cache, all vectors that are multiplied by them come from
 * the second-level cache, which holds a block of vectors. So the loops are, from the outside in:
 * axes of both operands or none; blocks of vectors; axes of the broadcast operand; axes of the
 * vectors. If the vectors are computed for each panel, the last two change places. */
enum { RANK_COMMON, RANK_BLOCK, RANK_BROADCAST, RANK_VECTORS, NUM_RANKS };

/* Whether the vectors that a tile loads depend on an axis. */
static bool has_own_vectors(const BpStageInfo *info, const Tile *tile, int32_t axis) {
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    if (is_vector_access(access, tile) && (!access->is_linear[axis] || access->stride[axis] != 0))
      return true;
  }
  return false;
}

static bool has_own_broadcasts(const BpStageInfo *info, const Tile *tile, int32_t axis) {
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    if (!is_vector_access(access, tile) && (!access->is_linear[axis] || access->stride[axis] != 0))
      return true;
  }
  return false;
}

/* Whether a stage exchanges the axes of an operand, which is contiguous along the reduction. */
static bool is_turned(const BpStageInfo *work, const BpStageInfo *info, const BpMachine *machine) {
  int64_t side;
  return machine->lanes > 1 && bp__stage_turns(info->stage) && info->bits == work->bits &&
         bp__find_permuted(info, info->ndim - 1, &side) == info->ndim - 2;
}

/* The producer of an access' vectors that is best computed in the tiles. All tiles of the broadcast
 * operand read the panel of a tile while the panel is in the cache. NULL if the access has no such
 * producer. */
static const BpStageInfo *panel_producer(const BpStageInfo *work, const BpAccess *access,
                                         const Tile *tile, const BpMachine *machine) {
  const BpStageInfo *info = own_vectors(work, access, tile, machine);
  return info && (is_turned(work, info, machine) || is_read_by_axes(work, access)) ? info : NULL;
}

static const BpStageInfo *find_panel(const BpStageInfo *work, const Tile *tile,
                                     const BpMachine *machine) {
  const BpStageInfo *found = NULL;
  for (int32_t i = 0; i < work->num_accesses && !found; i++)
    found = panel_producer(work, &work->accesses[i], tile, machine);
  return found;
}

static int32_t rank_of(const BpStageInfo *info, const Tile *tile, int32_t axis) {
  bool vectors = has_own_vectors(info, tile, axis);
  bool broadcasts = has_own_broadcasts(info, tile, axis);
  return vectors == broadcasts ? RANK_COMMON : vectors ? RANK_VECTORS : RANK_BROADCAST;
}

/* The bytes of the largest operand that is loaded as vectors. */
static double vector_bytes(const BpStageInfo *info, const Tile *tile) {
  double most = 0;
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    if (is_vector_access(access, tile) && bp__tensor_bytes(access->tensor) > most)
      most = bp__tensor_bytes(access->tensor);
  }
  return most;
}

static int split_tiles(const BpStageInfo *work, BpTeStage *stage, const Tile *tile, Loops *loops) {
  for (int32_t i = 0; i < work->ndim; i++) {
    BpTeAxis *axis = stage->axes[i], **inner = &loops->inner[loops->num_inner];
    int64_t size = tile->size[i];
    int32_t at = loops->num_outer++;
    bool is_vector = i == tile->vector_axis;
    loops->rank[at] = rank_of(work, tile, i);
    loops->outer[at] = axis;
    if (size == 1)
      continue;
    int32_t otherwise = is_vector && !axis->open ? BP_TE_TAIL_PEEL : BP_TE_TAIL_BALANCE;
    int32_t tail = tail_for(work, i, size, otherwise);
    if (bp_te_split(stage, axis, size, tail, &loops->outer[at], is_vector ? &loops->vector : inner))
      return -1;
    loops->num_inner += !is_vector;
  }
  return 0;
}

/* The number of tiles of a block: of at most `most`, and at least half as many, the number with the
 * fewest places for tiles beyond the end. Threads get equal numbers of places, so that a block with
 * few tiles would leave a thread idle. */
static int64_t block_tiles(int64_t tiles, int64_t most) {
  int64_t best = most > 1 ? most : 1;
  for (int64_t size = best - 1; size > 0 && size * 2 >= most; size--)
    if (bp__divide_up(tiles, size) * size < bp__divide_up(tiles, best) * best)
      best = size;
  return best;
}

/* Divides the tiles along the first axis of the vectors into blocks whose vectors fit in the
 * second-level cache. */
static int split_blocks(BpTeStage *stage, double bytes, const BpMachine *machine, Loops *loops) {
  int32_t at = 0;
  while (at < loops->num_outer &&
         (loops->rank[at] != RANK_VECTORS || bp_te_axis_extent(loops->outer[at]) == 1))
    at++;
  if (at == loops->num_outer || bytes * 2 <= (double)machine->l2)
    return 0;
  double share = (double)machine->l2 / 2 / bytes;
  int64_t tiles = bp_te_axis_extent(loops->outer[at]);
  int64_t size = block_tiles(tiles, (int64_t)(share * (double)tiles));
  int32_t block = loops->num_outer++;
  loops->rank[block] = RANK_BLOCK;
  return bp_te_split(stage, loops->outer[at], size, BP_TE_TAIL_GUARD, &loops->outer[block],
                     &loops->outer[at]);
}

/* The number of shares for each core, so that all cores end at about the same time. */
#define SHARES_PER_CORE 8
/* The number of shares with which a producer keeps its place instead of giving more shares. */
#define FEW_SHARES 16

/* Fuses leading loops until all cores have enough work, and runs them in parallel. Loop `kept` is
 * not fused if the loops without it give `few` shares; -1 keeps no loop. */
static int parallelize(BpTeStage *stage, BpTeAxis **outer, int32_t *count, int32_t kept,
                       int64_t few, int64_t cores) {
  for (int32_t next = 1; *count > 1; next++) {
    int64_t shares = bp_te_axis_extent(outer[0]);
    if (shares >= SHARES_PER_CORE * cores || (next == kept && shares >= few))
      break;
    if (bp_te_fuse(stage, outer[0], outer[1], &outer[0]) != 0)
      return -1;
    memmove(outer + 1, outer + 2, (size_t)(*count - 2) * sizeof *outer);
    --*count;
  }
  return bp_te_parallel(stage, outer[0]);
}

/* Whether an access reads each element of its input at most once for all values of the other axes:
 * its windows do not overlap. The axes on which the access depends then have no more iterations
 * than the input has elements. */
static bool reads_each_once(const BpStageInfo *work, const BpAccess *access,
                            const BpStageInfo *input) {
  double reads = 1;
  for (int32_t i = 0; i < work->num_roots; i++)
    if (bp__access_depends_on(access, i))
      reads *= (double)work->extent[i];
  return reads <= bp__info_size(input, 0, input->ndim);
}

/* The producer of an access' broadcast values, usually a padded or converted copy, which is best
 * computed just before its use, so that it is in the cache; NULL if the access has no such
 * producer. A kernel has no workspace, so its producers are kernels of their own. */
static const BpStageInfo *near_producer(const BpStageInfo *work, const BpAccess *access,
                                        const Tile *tile, const BpMachine *machine) {
  if (machine->has_kernels || is_vector_access(access, tile))
    return NULL;
  const BpStageInfo *info = bp__info_own_input(work, access);
  bool is_near =
      info && (bp__info_input_is_cheap(work, info) || reads_each_once(work, access, info));
  return is_near ? info : NULL;
}

static bool has_near_producer(const BpStageInfo *work, const Tile *tile, const BpMachine *machine) {
  for (int32_t i = 0; i < work->num_accesses; i++)
    if (near_producer(work, &work->accesses[i], tile, machine))
      return true;
  return false;
}

/* Loops in which other stages can be placed. */
typedef struct Places {
  BpTeAxis *inside; /* the innermost loop over tiles */
  BpTeAxis *around; /* the loop around the last loop over broadcast values, or NULL */
  BpTeAxis *panel;  /* the last loop over vectors */
} Places;

/* Sorts the loops over tiles, and returns their number. The loops over broadcast values are inside
 * the loops over vectors if vectors are computed for each panel. *last_broadcast is set to the
 * place of the last loop over broadcast values, or -1; *last_vectors to the place of the last loop
 * over vectors. */
static int32_t order_tiles(const Loops *loops, bool has_panel, BpTeAxis **order,
                           int32_t *last_broadcast, int32_t *last_vectors) {
  static const int32_t ranks[][NUM_RANKS] = {
      {RANK_COMMON, RANK_BLOCK, RANK_BROADCAST, RANK_VECTORS},
      {RANK_COMMON, RANK_BLOCK, RANK_VECTORS, RANK_BROADCAST}};
  int32_t outer = 0;
  *last_broadcast = *last_vectors = -1;
  for (int32_t place = 0; place < NUM_RANKS; place++)
    for (int32_t i = 0; i < loops->num_outer; i++) {
      int32_t rank = ranks[has_panel][place];
      if (loops->rank[i] != rank)
        continue;
      if (rank == RANK_BROADCAST && bp_te_axis_extent(loops->outer[i]) > 1)
        *last_broadcast = outer;
      if (rank == RANK_VECTORS)
        *last_vectors = outer;
      order[outer++] = loops->outer[i];
    }
  return outer;
}

/* Makes the loops of the storing stage. */
static int tile_output(const BpStageInfo *work, BpTeStage *stage, const Tile *tile,
                       const BpMachine *machine, int64_t cores, Places *made) {
  Loops loops = {.num_outer = 0};
  BpTeAxis *order[2 * BP_TE_MAX_NDIM + 4];
  int32_t last_broadcast, last_vectors;
  bool has_panel = find_panel(work, tile, machine) != NULL;
  if (split_tiles(work, stage, tile, &loops) != 0 ||
      (!has_panel && split_blocks(stage, vector_bytes(work, tile), machine, &loops) != 0))
    return -1;
  int32_t outer = order_tiles(&loops, has_panel, order, &last_broadcast, &last_vectors);
  int32_t all = outer, all_outer = outer;
  for (int32_t i = 0; i < loops.num_inner; i++) {
    if (bp_te_unroll(stage, loops.inner[i]) != 0)
      return -1;
    order[all++] = loops.inner[i];
  }
  if (loops.vector && bp__vectorize_part(stage, loops.vector, machine->lanes, order, &all) != 0)
    return -1;
  if (bp_te_reorder(stage, order, all) != 0)
    return -1;
  int32_t kept = has_near_producer(work, tile, machine) ? last_broadcast : -1;
  if (has_panel) /* shares of one panel would compute it again */
    kept = last_vectors + 1;
  if (cores > 1 && parallelize(stage, order, &outer, kept, has_panel ? 1 : FEW_SHARES, cores) != 0)
    return -1;
  last_broadcast -= all_outer - outer;
  made->inside = order[outer - 1];
  made->around = last_broadcast > 0 ? order[last_broadcast - 1] : NULL;
  made->panel = has_panel ? order[last_vectors - (all_outer - outer)] : NULL;
  return 0;
}

/* ---- Loops inside a tile ----------------------------------------------------------------- */

/* The number of iterations by which prefetches are early: about the latency of the second-level
 * cache. */
#define PREFETCH_AHEAD 16

/* Prefetches the streamed vectors if each step of the innermost reduction loop needs new
 * vectors. */
static int prefetch_vectors(const BpStageInfo *info, BpTeStage *stage, const Tile *tile,
                            const BpMachine *machine) {
  int32_t last = info->num_roots - 1;
  while (last > info->ndim && info->extent[last] == 1)
    last--;
  for (int32_t i = 0; i < info->num_accesses && last >= info->ndim; i++) {
    const BpAccess *access = &info->accesses[i];
    if (!is_vector_access(access, tile) ||
        bp__tensor_bytes(access->tensor) * 2 < (double)machine->l1 || !access->is_linear[last] ||
        access->stride[last] < machine->lanes || info->extent[last] < PREFETCH_AHEAD)
      continue;
    BpTeAxis *axis =
        stage->axes[last]->used_by ? stage->axes[last]->used_by->inner : stage->axes[last];
    if (bp_te_prefetch(stage, access->tensor, axis, PREFETCH_AHEAD) != 0)
      return -1;
  }
  return 0;
}

int bp__split_reduction(const BpStageInfo *info, BpTeStage *stage, BpTeAxis **order,
                        int32_t *count) {
  BpTeAxis *inside[BP__TE_MAX_AXES];
  int32_t num_inside = 0;
  for (int32_t i = info->ndim; i < info->num_roots; i++) {
    BpTeAxis **axis = &order[(*count)++];
    int64_t piece = piece_of(info, i);
    *axis = stage->axes[i];
    if (piece > 1 && piece < info->extent[i] &&
        bp_te_split(stage, *axis, piece, BP_TE_TAIL_PEEL, axis, &inside[num_inside++]) != 0)
      return -1;
  }
  for (int32_t i = 0; i < num_inside; i++)
    order[(*count)++] = inside[i];
  return 0;
}

/* Makes the loops of the accumulators: the reduction, with the tile inside, whose few vectors stay
 * in registers while each broadcast value in turn is multiplied by all of them. */
static int tile_work(const BpStageInfo *info, BpTeStage *stage, const Tile *tile,
                     const BpMachine *machine) {
  BpTeAxis *order[BP__TE_MAX_AXES];
  int32_t count = 0, ndim = stage->ndim;
  if (bp__split_reduction(info, stage, order, &count) != 0)
    return -1;
  for (int inner = 0; inner < 2; inner++)
    for (int32_t i = 0; i < ndim; i++)
      if (i != tile->vector_axis && has_own_vectors(info, tile, i) == inner) {
        order[count++] = stage->axes[i];
        if (bp_te_unroll(stage, stage->axes[i]) != 0)
          return -1;
      }
  if (bp__vectorize_part(stage, stage->axes[tile->vector_axis], machine->lanes, order, &count) != 0)
    return -1;
  if (bp_te_reorder(stage, order, count) != 0)
    return -1;
  return prefetch_vectors(info, stage, tile, machine);
}

/* ---- Producers --------------------------------------------------------------------------- */

/* Computes the producers of broadcast values in the loop `around`. */
static int place_producers(const BpStageInfo *work, const BpStageInfo *output, const Tile *tile,
                           const BpMachine *machine, BpTeAxis *around) {
  for (int32_t i = 0; i < work->num_accesses; i++) {
    const BpStageInfo *info = near_producer(work, &work->accesses[i], tile, machine);
    if (info && (bp_te_compute_at(info->stage, output->stage, around) != 0 ||
                 bp__schedule_run(info->stage, info->stage->axes[info->ndim - 1],
                                  bp__machine_for(machine, info).lanes, 1) != 0))
      return -1;
  }
  return 0;
}

/* The bytes by which a panel's prefetches are early: processors do not recognise the order of the
 * lines in which blocks are read. */
#define PANEL_AHEAD 8192

/* Transposes the panel of a tile, in square blocks that fit in the registers (turn.c). */
static int place_turned(const BpStageInfo *info, const BpStageInfo *output,
                        const BpMachine *machine, BpTeAxis *panel) {
  BpTeStage *stage = info->stage;
  int64_t lanes = bp__machine_for(machine, info).lanes;
  BpTeAxis *order[BP_TE_MAX_NDIM + 2], *rows, *row, *vectors, *lane;
  int32_t ndim = info->ndim, count = 0;
  if (bp_te_compute_at(stage, output->stage, panel) != 0 ||
      bp_te_split(stage, stage->axes[ndim - 2], lanes, BP_TE_TAIL_PEEL, &rows, &row) != 0 ||
      bp_te_split(stage, stage->axes[ndim - 1], lanes, BP_TE_TAIL_PEEL, &vectors, &lane) != 0)
    return -1;
  for (; count < ndim - 2; count++)
    order[count] = stage->axes[count];
  BpTeAxis *inner[] = {vectors, rows, row, lane};
  memcpy(order + count, inner, sizeof inner);
  if (bp_te_reorder(stage, order, count + 4) != 0 || bp_te_vectorize(stage, lane) != 0)
    return -1;
  /* The elements after the last one of a row are those of the next row. */
  BpTeTensor *tensor = info->accesses[0].tensor;
  return bp_te_prefetch(stage, tensor, rows, PANEL_AHEAD * 8 / tensor->dtype.bits / lanes);
}

/* The number of rows that read each value of a panel: the extent of the axes of the product on
 * which the panel does not depend. NULL with an error. *is_open is set to whether an axis is open.
 */
static const BpIrNode *count_rows(const BpStageInfo *work, const BpStageInfo *panel,
                                  bool *is_open) {
  BpIrModule *ir = bp_te_ir(work->stage->te);
  const BpIrNode *rows = bp__ir_int64(ir, 1);
  *is_open = false;
  for (int32_t i = 0; i < work->ndim; i++) {
    const BpTeAxis *axis = work->stage->axes[i];
    bool is_own = false;
    for (int32_t j = 0; j < work->num_accesses; j++)
      is_own |= work->accesses[j].tensor->stage == panel->stage &&
                bp__access_depends_on(&work->accesses[j], i);
    if (is_own)
      continue;
    *is_open |= axis->open != NULL;
    rows =
        bp_ir_binary(ir, BP_IR_MUL, rows, axis->open ? axis->open : bp__ir_int64(ir, axis->extent));
  }
  return rows;
}

/* Lets the product compute the values of a panel where it reads them, if an open number of rows is
 * small. Without a reader the panel is not computed (partition.c). */
static int choose_by_rows(const BpStageInfo *work, const BpStageInfo *panel, BpTeStage *sums,
                          const BpMachine *machine) {
  BpIrModule *ir = bp_te_ir(sums->te);
  bool is_open;
  const BpIrNode *rows = count_rows(work, panel, &is_open);
  if (!is_open)
    return rows ? 0 : -1;
  const BpIrNode *are_many = bp_ir_binary(ir, BP_IR_GT, rows, bp__ir_int64(ir, BP__FEW_ROWS));
  if (bp__te_inline_unless(sums, panel->stage, are_many) != 0)
    return -1;
  BpTeAxis *last = sums->axes[work->num_roots - 1];
  for (int32_t i = 0; i < panel->num_accesses; i++) {
    BpTeTensor *tensor = panel->accesses[i].tensor;
    if (bp__tensor_bytes(tensor) * 2 >= (double)machine->l1 && panel->ndim > 1 &&
        bp__access_depends_on(&panel->accesses[i], panel->ndim - 2) &&
        bp_te_prefetch(sums, tensor, last, PREFETCH_AHEAD) != 0)
      return -1;
  }
  return 0;
}

/* Computes the panel of a tile. */
static int place_panel(const BpStageInfo *work, const BpStageInfo *panel, const BpStageInfo *output,
                       BpTeStage *sums, const BpMachine *machine, BpTeAxis *at) {
  if (is_turned(work, panel, machine))
    return place_turned(panel, output, machine, at);
  if (bp_te_compute_at(panel->stage, output->stage, at) != 0 ||
      bp_te_set_scope(panel->stage, BP_IR_SCOPE_GLOBAL) != 0 ||
      bp__schedule_run(panel->stage, panel->stage->axes[panel->ndim - 1],
                       bp__machine_for(machine, panel).lanes, 1) != 0)
    return -1;
  return choose_by_rows(work, panel, sums, machine);
}

int bp__schedule_tile(const BpStageInfo *work, const BpStageInfo *output, const BpMachine *given) {
  BpMachine own = bp__machine_for(given, work), *machine = &own;
  BpTe *te = work->stage->te;
  Places places;
  if (work->ndim == 0 || bp__info_size(work, 0, work->num_roots) == 0)
    return 0;
  Tile tile = choose_tile(work, machine);
  double products = bp__info_size(work, 0, work->num_roots);
  int64_t cores = bp__cores_for(machine, products, BP__PARALLEL_PRODUCTS);
  BpTeTensor *sums = work->stage->tensor;
  if (work == output && !(sums = bp_te_cache_write(te, sums, BP_IR_SCOPE_LOCAL)))
    return -1;
  if (tile_output(work, output->stage, &tile, machine, cores, &places) != 0 ||
      bp_te_set_scope(sums->stage, BP_IR_SCOPE_LOCAL) != 0 ||
      bp_te_compute_at(sums->stage, output->stage, places.inside) != 0)
    return -1;
  const BpStageInfo *panel = places.panel ? find_panel(work, &tile, machine) : NULL;
  if (panel && place_panel(work, panel, output, sums->stage, machine, places.panel) != 0)
    return -1;
  if (places.around && place_producers(work, output, &tile, machine, places.around) != 0)
    return -1;
  return tile_work(work, sums->stage, &tile, machine);
}

/* ---- Packed operands --------------------------------------------------------------------- */

typedef struct Product {
  BpTeTensor *a, *b;
  int64_t inner;
} Product;

static const BpIrNode *product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Product *product = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", product->inner);
  const BpIrNode *a = bp_te_read(te, product->a, (const BpIrNode *[]){axes[0], k});
  const BpIrNode *b = bp_te_read(te, product->b, (const BpIrNode *[]){k, axes[1]});
  return bp_te_reduce(te, BP_TE_SUM, bp_ir_binary(bp_te_ir(te), BP_IR_MUL, a, b), &k, 1);
}

int64_t bp_schedule_panel_columns(const BpTarget *target, BpDataType dtype, int64_t rows,
                                  int64_t inner, int64_t columns) {
  const int64_t a[] = {rows, inner}, b[] = {inner, columns}, c[] = {rows, columns};
  BpMachine machine = bp__machine(target);
  BpAnalysis analysis = {0};
  int64_t panel = -1;
  BpTe *te = bp_te_create();
  if (!te)
    return -1;
  Product product = {bp_te_placeholder(te, "a", dtype, a, 2),
                     bp_te_placeholder(te, "b", dtype, b, 2), inner};
  BpTeTensor *sums = bp_te_compute(te, "c", c, 2, product_body, &product);
  if (sums && bp__convert_operands(te, &sums, 1) == 0 &&
      bp__analysis_init(&analysis, te, &sums, 1) == 0) {
    const BpStageInfo *info = bp__analysis_find(&analysis, sums);
    machine = bp__machine_for(&machine, info);
    panel = choose_tile(info, &machine).vectors * machine.lanes;
    bp__analysis_clear(&analysis);
  }
  bp_te_free(te);
  return panel;
}
