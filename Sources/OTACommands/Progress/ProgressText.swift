import OTAUpdate

/// Progress in words.
enum ProgressText {
    static func line(for phase: UpdatePhase) -> String {
        switch phase {
        case .connect: "Connecting"
        case .preflight: "Reading what the device is"
        case .envelope: "Sending manifest and signatures"
        case .transfer: "Sending the image"
        case .verify: "The device reads the image back"
        case .apply: "Marking the image for boot"
        case .restart: "The device restarts"
        case .confirm: "Confirming"
        }
    }

    /// Nil: a phase or an advance, which are shown in another way.
    static func line(for progress: UpdateProgress) -> String? {
        switch progress {
        case .phase, .transferred: nil
        case .linkLost(let error): "Link lost: \(error.detail); trying again"
        case .reconnected: "Connected again"
        case .resumed(let offset, let total): "Going on at byte \(offset) of \(total)"
        case .discarded(let offset):
            "A half-received image of \(Figures.bytes(offset)) is given up (--resume takes up one that is this bundle's)"
        case .gap(let offset): "Chunks got lost on the way; going on at byte \(offset)"
        case .deviceReset(let offset): "The device restarted by itself; going on at byte \(offset)"
        case .confirmed(let version): "Version \(version) is confirmed"
        case .note(let text): text.prefix(1).uppercased() + text.dropFirst()
        }
    }
}
