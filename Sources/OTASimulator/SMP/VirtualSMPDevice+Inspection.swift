/// What a test or a person wants to know of a virtual device. It may be asked at any time.
extension VirtualSMPDevice {
    public var now: Duration { lock.locked { time } }
    public var flashOperationCount: Int { lock.locked { flash.operationCount } }
    public var flashViolationCount: Int { lock.locked { flash.violationCount } }
    public var restartCount: Int { lock.locked { restarts } }
    /// Packets answered so far.
    public var answeredPackets: Int { lock.locked { packets } }
    /// The most packets that waited in its buffers.
    public var mostPacketsWaiting: Int { lock.locked { longestQueue } }

    /// Values that began a packet and were dropped, because no buffer was free.
    public var overflowCount: Int { lock.locked { overflows } }

    public var isUnbootable: Bool {
        lock.locked { if case .unbootable = power { true } else { false } }
    }

    public var bootState: BootState? { lock.locked { VirtualBootloader(flash: flash).state } }

    /// What lies in the slot of an image that is about to be tried; nil: none is.
    public var markedImage: [UInt8]? { lock.locked { VirtualBootloader(flash: flash).markedImage } }

    /// What runs; nil: nothing does, for the moment or for good.
    public var running: VirtualBootloader.Boot? {
        lock.locked { if case .on(let server) = power { server.slots.boot } else { nil } }
    }

    /// The bytes of the image that runs, and of the one in the other slot where there is one.
    public var runningImage: [UInt8]? { image { $0.boot.slot } }
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
