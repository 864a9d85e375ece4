"""Public names of version 0.2 that 0.3 renamed: each still works, with a warning."""

import sys
from collections.abc import Callable

from ._deprecation import keep_keywords, keep_members, parse_table, warn_renamed

# Pairs of an old and a new name, below their module. Version 0.4 drops the tables.
_NAMES = """
meanfield
    Moving MovingContext
meanfield.attention
    AbstractSmearedCoupling AbstractClosedFormCoupling, closed_on_gaussians
    gaussian_variants, own_options variant_options
meanfield.attention.sparse
    CausallyLearned CausalLearnedSorting, Learned LearnedSorting, Reordered
    FixedSorting, balanced balance_logs, balanced_causally balance_logs_causally,
    pooled block_sums, pooled_before prefix_sums
meanfield.distances
    conditional conditional_wasserstein, lines line_marginals, nearest
    best_distance, quantised quantise, sliced sliced_wasserstein
meanfield.dynamics
    Moving MovingContext, Still StaticContext, stacked stack_trees
meanfield.endings
    endings_in_words summarise_endings
meanfield.energies
    Twisted TwistedMetric, free measure_energies, natural attention_energies,
    steepest steepest_rate
meanfield.errors
    ProcessLost ProcessLostError, SimulationFailed SimulationError,
    VerificationFailed VerificationError
meanfield.flows
    Doubt ErrorEstimate, Seen Observation, compiled compile_function, doubt
    error_estimate, followed flow_problem, over_jumps steps_over_jumps, planned
    plan_sums, prepared prepare_problem
meanfield.linalg
    positive_definite is_positive_definite
meanfield.measures
    AbstractPlanned AbstractPlannedReduction, COARSE MAX_ROUGHNESS, FEWEST
    MIN_CELLS, Fenced CheckedCells, Interpolated InterpolationSignal, LARGEST
    MAX_BLOCK_NUMBERS, MISSING MAX_MISSING_MASS, Ordered SequenceCheck, Revealing
    InterpolationDetector, Rotated RotatedSigmaPoints, TURN MAX_TURN, Unchecked
    UncheckedCells, beside as_batched, check_upright check_no_shear, clouds_abreast
    max_batch_size, coarsely coarsen, exactly use_exact_sums, some_of subsample,
    suspects worst_tokens, typical typical_layout, unchecked use_unchecked_cells,
    unfenced use_fallback, unread unsupported_measure
meanfield.measures.edges
    even even_edges, graded graded_edges
meanfield.models
    Listed ModelEntry, Trained TrainedNetwork, listed list_models, text_in
    resolve_text
meanfield.plotting
    named output_path, put write_file
meanfield.reproduce
    Reproduced ReproducedFigure, chosen select_experiments
meanfield.runs
    Fall EnergyChange, Foresight Forecast, foreseen forecast, in_words
    describe_duration, readable format_bytes, refuse_changed_plugins
    check_plugins_unchanged, refuse_full_disk check_disk_space, stored_start
    load_start, with_attention add_attention, with_words add_word_coordinate
meanfield.scores
    Transposed TransposedScore, transposed transpose
meanfield.spec
    Moved MeasureInfo, OF_HEADS HEADWISE_KEYS, beside relative_paths, knows has_key,
    laid_over merge_values, located resolve_paths, name_in relative_name, with_files
    replace_files, with_values replace_values
meanfield.theorems
    by_attention statements_by_attention, chosen select_statements, described
    describe_statement, measured verify_statement
meanfield.training
    Cooling Annealing, Item Sample, Items Samples, MeetingBlock CrossAttentionBlock,
    after post_norm_block, before pre_norm_block, examined evaluate
"""
# Pairs of an old and a new member, below the path MODULE.CLASS of their class. The old
# name of a field also works as a keyword of the constructor.
_MEMBERS = """
meanfield.attention.AbstractClosedFormCoupling
    smeared gaussian_barycentre
meanfield.attention.AbstractCoupling
    across cross_barycentre, bounded_across is_cross_bounded, linearly_bounded
    is_linearly_bounded
meanfield.attention.AbstractGaussianCoupling
    affine_across cross_affine
meanfield.attention.AbstractSoftSlices
    near line_score
meanfield.distances.Distance
    how method
meanfield.dynamics.AbstractContext
    at measure_at
meanfield.dynamics.AbstractDynamics
    linearly_bounded is_linearly_bounded
meanfield.dynamics.Heads
    count n_heads
meanfield.dynamics.MovingContext
    through from_frames
meanfield.endings.Status
    failed is_failure, named from_name
meanfield.energies.AbstractEnergy
    on_gaussian value_on_gaussian, on_grid value_on_grid, on_points value_on_points,
    slopes moment_gradients
meanfield.flows.AbstractStop
    watches_speed needs_speed
meanfield.flows.Observation
    changing is_changing
meanfield.flows.Trajectory
    at frame, due predicted_blow_up, lapse convergence_failure, missed sum_error,
    predicted prediction
meanfield.flows.motions.Motion
    abreast batch_size, alike share_plan, ask_again diagnose_failure, at_start
    reference, driven add_noise, is_fenced is_checked, jumps has_jumps, laid_out
    schedule_steps, missed sum_convergence, onward extrapolate, planned plan, ready
    prepare, roomier enlarge_plan, splits is_split, unplanned discard_plan,
    vanishing vanishing_status
meanfield.measures.AbstractBox
    continued extend_density, let_through apply_walls
meanfield.measures.AbstractMeasure
    at replace_coordinates, read_by accept
meanfield.measures.AbstractReader
    of_facing read_facing, of_gaussian read_gaussian, of_grid read_grid, of_nodes
    read_nodes, of_points read_points, of_quadrature read_quadrature
meanfield.measures.AbstractRule
    along factor_nodes
meanfield.measures.Points
    counted safe_tokens, restricted restrict, scaled shift_log_weights, summed
    replace_reduction
meanfield.measures.Quadrature
    of from_rule
meanfield.models.blocks.HeadWeights
    reading value_projection, reading_bias value_bias, writing output_projection,
    writing_bias output_bias
meanfield.models._comparison.Depth
    unmoved initial_distance
meanfield.runs.comparisons._gaps.Gap
    parting separation
meanfield.runs.comparisons._gaps.Separation
    allowed tolerance, what moment
meanfield.runs.comparisons._sides.Sides
    left_out omitted
meanfield.runs.execution._result.Result
    caveat note, fall energy_change
meanfield.runs.forecasts._duration.Duration
    between extra_seconds, known has_fixed_steps
meanfield.runs.records._endings.Outcome
    accepted n_accepted, doubt error_estimate, due predicted_blow_up, lapse
    convergence_failure, missed sum_error, missed_at_most is_sum_error_bound,
    rejected n_rejected
meanfield.runs.records._energy_change.EnergyChange
    decreased is_decreasing
meanfield.runs.representations.AbstractRepresentation
    begins_with start_type, in_full default_keys, lost outflow, of_frame from_frame,
    of_law from_law, of_tokens from_tokens, out_of_steps step_advice, place
    space_variable, remembers_start needs_start, size_in_full full_size,
    stands_for_tokens tokens_note
meanfield.scores.AbstractQuadraticScore
    of_keys key_terms, of_queries query_terms
meanfield.scores.Masked
    allowed is_allowed
meanfield.spec.Key
    in_pass is_forward_key, left_behind is_not_inherited, never excluded_measures,
    of_heads is_headwise, on_page page_help, only required_measure, titled is_in_title
meanfield.spec._presets.Preset
    what description
meanfield.theorems.Check
    violated is_violated
meanfield.theorems.Outcome
    passed has_passed
meanfield.theorems.Statement
    misprinted register_misprint, printed misprint, refuted_by register_control,
    refuted_if set_control
meanfield.theorems.Trial
    passed has_passed
meanfield.training.AbstractTask
    items samples, refuse check_network
meanfield.training.Annealing
    after delay
meanfield.training.CrossAttentionBlock
    inner inner_norm, keys key_norm, queries query_norm
meanfield.training.DecoderBlock
    meeting cross_layer, past causal_layer
meanfield.training.Head
    reading value_projection, writing output_projection
meanfield.training.Recipe
    batch batch_size, cooling annealing, drops milestones, rate learning_rate, rate_of
    learning_rate_at
meanfield.training.Record
    items samples_digest
meanfield.training.Residual
    after post_norm, before pre_norm
meanfield.training.TrainSpec
    rehearsal validation_split
meanfield.training.Variant
    given frozen_arrays
meanfield.training.Verdict
    pairs n_pairs, seen detectable_effect, word conclusion
meanfield.training.tasks.Patches
    reading pooling
meanfield.training.tasks.Sorting
    examined n_test, taught n_train
"""

# Pairs of an old and a new keyword, below their function or method.
_KEYWORDS = """
meanfield.attention:GaussianSoftSlices.__init__
    near line_score
meanfield.attention:PublishedSoftSlices.__init__
    near line_score
meanfield.attention:SoftSlices.__init__
    near line_score
meanfield.distances:quantise
    at_most max_atoms
meanfield.flows:ensemble
    due predicted_blow_up, since run_start, together batch_size, until run_end
meanfield.flows:flow
    due predicted_blow_up, since run_start, until run_end
meanfield.measures:RotatedSigmaPoints.__init__
    at_least min_nodes
meanfield.runs._maps:add_attention
    at snapshot_times
meanfield.runs._maps:attention_of
    at snapshot_times
meanfield.spec:MeasureInfo.__init__
    also extra_keys, never excluded_keys, thing title, what description
meanfield.theorems:Counterexample.__new__
    corrected correction, printed misprint
meanfield.theorems:Statement.register_misprint
    corrected correction, printed claim
meanfield.theorems:Statement.set_control
    seen_by labels
"""

RENAMED = parse_table(_NAMES)
MEMBERS = parse_table(_MEMBERS)
KEYWORDS = parse_table(_KEYWORDS)


def old_names(module: str, *, stacklevel: int = 2) -> Callable[[str], object]:
    """`__getattr__` of a module, which finds exported objects by their old names.

    Old members of its classes and old keywords of its functions work, too.

    Args:
        module: its `__name__`.
        stacklevel: frames from the warning to the code that asks for the name.
    """

    def load(name: str) -> object:
        """The object that was called `name`.

        Raises:
            AttributeError: if the module never had such a name.
        """
        new_name = RENAMED.get(module, {}).get(name)
        if new_name is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_renamed(f"{module}.{name}", new_name, stacklevel + 1)
        return getattr(sys.modules[module], new_name)

    for path, names in MEMBERS.items():
        owner, _, name = path.rpartition(".")
        if owner == module:
            keep_members(getattr(sys.modules[module], name), names)
    for path, names in KEYWORDS.items():
        owner, _, name = path.partition(":")
        if owner == module:
            keep_keywords(sys.modules[module], name, names)
    return load
