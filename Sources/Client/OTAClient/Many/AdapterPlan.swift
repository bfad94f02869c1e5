/// Distributes the Bluetooth devices of a push over several adapters.
///
/// Each device is assigned to the adapter that hears it best. The signal strength of one advertisement varies by some decibels, so small
/// differences have no meaning. Among adapters with about the same signal strength, the adapter with the fewest devices is selected.
package struct AdapterPlan: Sendable {
    /// The tolerance in dB. Two signal strengths count as equal if they differ by less than this value.
    package static let tolerance = 6

    private let adapters: [String]
    private var devices: [String: Int] = [:]

    /// Creates a plan.
    ///
    /// - Parameter adapters: the adapters in the order of the command line.
    package init(_ adapters: [String]) { self.adapters = adapters }

    /// Assigns the next device to an adapter.
    ///
    /// - Parameter heard: the signal strength at each adapter that hears the device, in dBm. The value nil means that the strength is
    ///   unknown. If no adapter of the plan is in the dictionary, the adapter with the fewest devices is selected.
    /// - Returns: the name of the adapter; nil if the plan has no adapter.
    package mutating func assign(heard: [String: Int?]) -> String? {
        let hearing = adapters.filter { heard[$0] != nil }
        let strongest = hearing.compactMap { heard[$0] ?? nil }.max()
        let suitable = hearing.filter { adapter in
            guard let strongest else { return true }
            return (heard[adapter] ?? nil).map { $0 > strongest - Self.tolerance } ?? false
        }
        let chosen = (suitable.isEmpty ? adapters : suitable).min { devices[$0, default: 0] < devices[$1, default: 0] }
        if let chosen { devices[chosen, default: 0] += 1 }
        return chosen
    }
}
