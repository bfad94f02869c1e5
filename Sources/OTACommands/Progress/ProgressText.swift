import OTAUpdate

/// The text of progress events.
enum ProgressText {
    static func line(for phase: UpdatePhase) -> String {
        switch phase {
        case .connect: "Connecting"
        case .preflight: "Checking the device"
        case .envelope: "Sending manifest and signatures"
        case .transfer: "Sending the image"
        case .verify: "Device verifies the image"
        case .apply: "Marking the image for boot"
        case .restart: "Device restarts"
        case .confirm: "Confirming"
        }
    }

    /// The line in the log of `--verbose`. It includes phases and transferred bytes.
    static func logLine(for progress: UpdateProgress) -> String {
        switch progress {
        case .phase(let phase): "phase \(phase.rawValue)"
        case .transferred(let offset, let total): "\(offset) of \(total) bytes acknowledged"
        default: line(for: progress) ?? "\(progress)"
        }
    }

    /// The line for an event; nil for phases and transferred bytes, which the renderers show in another way.
    static func line(for progress: UpdateProgress) -> String? {
        switch progress {
        case .phase, .transferred: nil
        case .linkLost(let error): "Link lost: \(error.detail); reconnecting"
        case .reconnected: "Reconnected"
        case .resumed(let offset, let total): "Resuming at byte \(offset) of \(total)"
        case .discarded(let offset):
            "Discarding a half-received image of \(Figures.bytes(offset)) (--resume continues one of the same bundle)"
        case .gap(let offset): "Chunks were lost; resuming at byte \(offset)"
        case .deviceReset(let offset): "The device restarted unexpectedly; resuming at byte \(offset)"
        case .confirmed(let version): "Version \(version) is confirmed"
        case .note(let text): text.prefix(1).uppercased() + text.dropFirst()
        }
    }
}
