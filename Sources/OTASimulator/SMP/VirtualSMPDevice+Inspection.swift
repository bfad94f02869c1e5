import DescriptorIO

/// Properties for tests and for the user. They may be read at any time.
extension VirtualSMPDevice {
    public var now: Duration { lock.locked { time } }
    public var flashOperationCount: Int { lock.locked { flash.operationCount } }
    public var flashViolationCount: Int { lock.locked { flash.violationCount } }
    public var restartCount: Int { lock.locked { restarts } }
    /// The number of responses so far.
    public var answeredPackets: Int { lock.locked { packets } }
    /// The maximum number of packets that waited in the buffers.
    public var mostPacketsWaiting: Int { lock.locked { longestQueue } }

    /// The number of dropped values that started a packet when no buffer was free.
    public var overflowCount: Int { lock.locked { overflows } }

    public var isUnbootable: Bool {
        lock.locked { if case .unbootable = power { true } else { false } }
    }

    public var bootState: BootState? { lock.locked { VirtualBootloader(flash: flash).state } }

    /// The bytes of the image that the next boot starts on trial; nil if no trial is pending.
    public var markedImage: [UInt8]? { lock.locked { VirtualBootloader(flash: flash).markedImage } }

    /// The running image; nil if the device is off, starting, or unbootable.
    public var running: VirtualBootloader.Boot? {
        lock.locked { if case .on(let server) = power { server.slots.boot } else { nil } }
    }

    /// The bytes of the running image.
    public var runningImage: [UInt8]? { image { $0.boot.slot } }
    /// The bytes of the image in the other slot; nil if the slot contains no complete image.
    public var heldImage: [UInt8]? { image { 1 - $0.boot.slot } }

    public var imageReception: (offset: Int, size: Int)? {
        lock.locked {
            guard case .on(let server) = power, let reception = server.reception else { return nil }
            return (reception.offset, reception.size)
        }
    }

    private func image(_ slot: (SMPSlots) -> Int) -> [UInt8]? {
        lock.locked {
            guard case .on(let server) = power, let image = SlotImage(flash, slot: slot(server.slots)) else {
                return nil
            }
            return try? flash.withBytes(at: flash.layout.slot(slot(server.slots)), count: image.length) { Array($0) }
        }
    }
}
